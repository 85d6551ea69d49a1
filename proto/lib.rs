//! The Panelboard contract: the generated messages and services of `panelboard.v1`, and in [`convert`] every
//! conversion between them and the core types. Nothing here decides anything.

/// The messages and services of `panelboard.v1`.
pub mod v1 {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    tonic::include_proto!("panelboard.v1");
}

/// The encoded descriptor set of the contract, with comments, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("descriptor");
