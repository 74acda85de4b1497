//! Compiles the .proto files with protox: no `protoc` needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=leasewatch");
    let files = protox::compile(["leasewatch/v1/telemetry.proto"], ["."])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
