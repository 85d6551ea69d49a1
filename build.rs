//! Compiles the contract without protoc.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");

    let mut compiler = protox::Compiler::new(["proto"])?;
    // Source info keeps the comments, so that `grpcurl describe` shows them.
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(["panelboard/v1/breaker_service.proto", "panelboard/store/v1/store.proto"])?;

    // Written by hand: `compile_fds` ignores `file_descriptor_set_path`.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptor.bin"), compiler.encode_file_descriptor_set())?;

    tonic_prost_build::configure().bytes(".panelboard.v1").compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
