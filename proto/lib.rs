//! The Panelboard contract: the generated messages and services of `panelboard.v1`, and in [`convert`] every
//! conversion between them and the core types. Nothing here decides anything.

pub mod convert;

// The modules nest as the packages do: generated code refers from one to the other by that path.
mod panelboard {
    #[allow(unreachable_pub)]
    pub mod v1 {
        #![allow(missing_docs, unreachable_pub, clippy::all)]
        tonic::include_proto!("panelboard.v1");
    }
    #[allow(unreachable_pub)]
    pub mod store {
        #[allow(unreachable_pub)]
        pub mod v1 {
            #![allow(missing_docs, unreachable_pub, clippy::all)]
            tonic::include_proto!("panelboard.store.v1");
        }
    }
}

/// What the server keeps in its store.
pub use panelboard::store::v1 as store;
/// The messages and services of `panelboard.v1`.
pub use panelboard::v1;

/// The encoded descriptor set of the contract, with comments, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("descriptor");
