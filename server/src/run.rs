//! From the command line to a running server, and to its end.

use std::{ffi::OsString, io, net::SocketAddr, process::ExitCode, sync::Arc};

use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    clock::Clock,
    config::{self, Command, Config, ConfigError, ServeFlags, StoreKind},
    logging,
    policies::{self, PolicyErrors},
    server::{Running, Setup, StartError},
    store::{Embedded, Memory, OpenError, Store, StoreId},
};

/// Why the program ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// An address cannot be listened on.
    #[error("cannot listen on {addr}: {error}: stop what listens there, or give another {flag}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The server cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The policies are not valid.
    #[error("{0}\nthe server does not start without policies that are valid")]
    Policies(PolicyErrors),
    /// The machine gives no runtime, no signal or no output.
    #[error(transparent)]
    Machine(#[from] io::Error),
}

impl Failure {
    /// 2 for what the operator has to mend in a file or a flag, else 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::Policies(_) => ExitCode::from(2),
            Self::Store(_) | Self::Listen { .. } | Self::Start(_) | Self::Machine(_) => ExitCode::from(1),
        }
    }
}

/// Runs the program with these arguments, the first of which is its name.
///
/// # Errors
/// [`Failure`], to be printed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Failure> {
    match Command::parse(arguments) {
        Ok(Command::Serve(flags)) => serve(&flags),
        Ok(Command::Check { path }) => {
            // As a server in this environment would load them, its limits included.
            let limits = config::load(&ServeFlags::default(), std::env::vars_os())?.config.limits;
            let checked = policies::check(&path, &limits, &mut io::stdout().lock())?;
            Ok(checked.into())
        }
        Err(error) => {
            error.print()?;
            Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)))
        }
    }
}

fn serve(flags: &ServeFlags) -> Result<ExitCode, Failure> {
    let loaded = config::load(flags, std::env::vars_os())?;
    if flags.print_config {
        use io::Write;
        write!(io::stdout().lock(), "{}", loaded.print())?;
        for warning in &loaded.warnings {
            writeln!(io::stderr().lock(), "panelboard: warning: {warning}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let config = loaded.config;
    // Another subscriber can only be there in a program that is not ours.
    let _ = logging::init(config.log_format, &config.log_level);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve_until_signal(config));
    // A thread that blocks on a disk must not keep the process.
    runtime.shutdown_background();
    ended
}

async fn serve_until_signal(config: Config) -> Result<ExitCode, Failure> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let grpc = listen(config.grpc_addr, "--grpc-addr").await?;
    let http = listen(config.http_addr, "--http-addr").await?;
    let setup = Setup {
        clock: Clock::system(),
        store: open(&config)?,
        policies: config.policies.clone(),
        limits: config.limits.clone(),
        drain_timeout: config.drain_timeout,
        seed: rand::random(),
    };
    let mut running = Running::start(setup, grpc, http).await.map_err(|error| match error {
        StartError::Policies(errors) => Failure::Policies(errors),
        other => Failure::Start(other),
    })?;
    greet(&config, &running);
    tokio::select! {
        _ = terminate.recv() => running.stop().await,
        _ = interrupt.recv() => running.stop().await,
        () = running.ended() => return Ok(ExitCode::FAILURE),
    }
    Ok(ExitCode::SUCCESS)
}

fn open(config: &Config) -> Result<Arc<dyn Store>, OpenError> {
    let fresh = StoreId::from_u128(rand::random());
    Ok(match config.store {
        StoreKind::Embedded => Arc::new(Embedded::open(&config.data_dir, fresh)?),
        StoreKind::Memory => Arc::new(Memory::new(fresh)),
    })
}

async fn listen(addr: SocketAddr, flag: &'static str) -> Result<TcpListener, Failure> {
    TcpListener::bind(addr).await.map_err(|error| Failure::Listen { addr, flag, error })
}

/// Says what runs and what to type next.
fn greet(config: &Config, running: &Running) {
    let store = match config.store {
        StoreKind::Embedded => format!("embedded, in {}", config.data_dir.display()),
        StoreKind::Memory => "memory: gone with the process".into(),
    };
    let policies = match &config.policies {
        Some(path) => format!("{} from {}", running.started_with.policies, path.display()),
        None => "the starter policy, for every name (write your own: docs/policies.md)".into(),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        grpc = %running.grpc_addr,
        http = %running.http_addr,
        epoch = running.started_with.epoch,
        breakers = running.started_with.breakers,
        store,
        policies,
        "panelboard serves"
    );
    let (grpc, http) = (running.grpc_addr, running.http_addr);
    eprint(&format!(
        "\nTry, in another terminal:\n\
         \x20 grpcurl -plaintext {grpc} list\n\
         \x20 grpcurl -plaintext -d '{{\"breaker\":\"checkout/shipping-quote\"}}' {grpc} panelboard.v1.BreakerService/Acquire\n\
         \x20 grpcurl -plaintext -d '{{\"entries\":[{{\"breaker\":\"checkout/shipping-quote\",\"failures\":20}}]}}' {grpc} panelboard.v1.BreakerService/Report\n\
         \x20 curl http://{http}/breakers/checkout/shipping-quote\n"
    ));
}

/// For a person at a terminal; machines read the log.
fn eprint(text: &str) {
    use io::{IsTerminal, Write};
    let mut stderr = io::stderr().lock();
    if stderr.is_terminal() {
        // Nobody is there to be told that nobody can be told.
        let _ = writeln!(stderr, "{text}");
    }
}
