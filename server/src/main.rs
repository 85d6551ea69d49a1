//! `panelboard`: serves circuit breakers that a whole fleet shares.

use std::{
    io::{self, Write},
    process::ExitCode,
};

fn main() -> ExitCode {
    match panelboard_server::run(std::env::args_os()) {
        Ok(code) => code,
        Err(failure) => {
            // Nobody is there to be told that nobody can be told.
            let _ = writeln!(io::stderr().lock(), "panelboard: {failure}");
            failure.exit_code()
        }
    }
}
