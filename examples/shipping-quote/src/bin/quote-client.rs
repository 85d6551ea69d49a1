//! One process of the fleet: an instance of its own, with an HTTP face and customers of its own.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use panelboard_client::Client;
use shipping_quote::cli::{parse_duration, say, told_to_stop};
use shipping_quote::desk::Desk;
use shipping_quote::policy_file::policy_of;
use shipping_quote::upstream::Upstream;
use shipping_quote::{face, load};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// How often the breaker's state is looked at for the counts. A look is a load from memory.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A process that quotes shipping prices through a breaker.
///
/// The first line on stdout is the address of its HTTP face: `GET /quote?postcode=12345` and `GET /stats`.
#[derive(Parser)]
#[command(name = "quote-client", version)]
struct Args {
    /// The Panelboard server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:50051")]
    panel: String,
    /// The provider's address.
    #[arg(long, value_name = "ADDR")]
    provider: String,
    /// The bearer token for the provider.
    #[arg(long)]
    token: Option<String>,
    /// Where the HTTP face listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    face: SocketAddr,
    /// The breaker to call through.
    #[arg(long, value_name = "NAME", default_value = "checkout/shipping-quote")]
    breaker: String,
    /// The name of this instance; without one, the host's and the process's.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// How long the provider may take.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "300ms")]
    timeout: Duration,
    /// How many quotes a second this process asks for by itself.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    rate: u32,
    /// Ask no server: a breaker of this process's own, with the policy of --policy or the default one.
    #[arg(long)]
    local_only: bool,
    /// The policy file for the time without a server.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// End when stdin does: for a parent process that may die.
    #[arg(long)]
    until_stdin_ends: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            tracing::error!("{message}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<(), String> {
    let instance = args.instance.clone().unwrap_or_else(|| format!("quote-client-{}", std::process::id()));
    let client = connect(&args, &instance)?;
    let provider =
        Upstream::new(&args.provider, args.token, args.timeout).map_err(|error| error.to_string())?;
    let desk = Arc::new(Desk::new(client.breaker(&args.breaker), provider));

    let listener = TcpListener::bind(args.face).await.map_err(|error| {
        format!("cannot listen on {}: {error}; give another --face, or port 0 for a free one", args.face)
    })?;
    let addr = listener.local_addr().map_err(|error| error.to_string())?;
    // Without the server the process starts as well: it only says so in its log.
    if !args.local_only
        && let Err(not_ready) = client.ready(Duration::from_secs(2)).await
    {
        tracing::warn!("{not_ready}; going on without the server");
    }
    say(&addr.to_string()).map_err(|error| error.to_string())?;

    tokio::select! {
        served = axum::serve(listener, face::router(Arc::clone(&desk))) => served.map_err(|error| error.to_string())?,
        () = load::run(Arc::clone(&desk), args.rate, &instance) => {}
        () = look(&desk) => {}
        () = told_to_stop(args.until_stdin_ends) => {}
    }
    client.shutdown().await;
    Ok(())
}

fn connect(args: &Args, instance: &str) -> Result<Client, String> {
    // A breaker per process is what a client is without a server: here nobody ever answers.
    let url = if args.local_only { "http://127.0.0.1:1" } else { args.panel.as_str() };
    let builder = Client::builder(url).service("checkout").instance(instance);
    let builder = match &args.policy {
        Some(file) => builder.policy(policy_of(file, &args.breaker)?),
        None => builder,
    };
    builder.build().map_err(|error| error.to_string())
}

async fn look(desk: &Desk) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        desk.look_at_breaker();
    }
}
