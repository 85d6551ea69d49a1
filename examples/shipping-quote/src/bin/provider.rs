//! The flaky provider, alone: `provider --status 503`, `--fail-rate 75`, `--slow 1.5s`, `--hang`, `--malformed`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use shipping_quote::cli::{parse_duration, say, told_to_stop};
use shipping_quote::provider::{Answer, Behaviour, Defect, Provider, Settings};
use tokio::net::TcpListener;

/// A shipping provider on loopback that misbehaves on demand.
///
/// The first line on stdout is its address. Without a flag it is well. Ask it with
/// `curl "http://ADDR/quote?postcode=12345"`, switch it with
/// `curl -d '{"answer":{"status":503}}' http://ADDR/control`, and see what reached it at `/stats`.
#[derive(Parser)]
#[command(name = "provider", version)]
struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    addr: SocketAddr,
    /// Answer with this status; with --fail-rate, in that share of the calls.
    #[arg(long, value_name = "STATUS")]
    status: Option<u16>,
    /// Fail this percentage of the calls, spread evenly: at 75 exactly three of four.
    #[arg(long, value_name = "PERCENT")]
    fail_rate: Option<u8>,
    /// Let --fail-rate draw its failures at random, the same ones for the same seed.
    #[arg(long, value_name = "NUMBER", requires = "fail_rate")]
    seed: Option<u64>,
    /// Take this long for each answer, like 1.5s; goes with every other flag.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "0s")]
    slow: Duration,
    /// Never answer.
    #[arg(long, conflicts_with_all = ["status", "fail_rate", "malformed"])]
    hang: bool,
    /// Answer 200 with a body that is not a quote.
    #[arg(long, value_name = "DEFECT", value_enum, num_args = 0..=1, default_missing_value = "missing-price",
          conflicts_with_all = ["status", "fail_rate"])]
    malformed: Option<Defect>,
    /// The price it quotes.
    #[arg(long, default_value = "12.34")]
    amount: String,
    /// The currency it quotes in.
    #[arg(long, default_value = "EUR")]
    currency: String,
    /// Answer 401 to whoever does not show this bearer token.
    #[arg(long)]
    token: Option<String>,
    /// End when stdin does: for a parent process that may die.
    #[arg(long)]
    until_stdin_ends: bool,
}

impl Args {
    fn behaviour(&self) -> Behaviour {
        let answer = match (self.fail_rate, self.status, self.malformed) {
            (Some(percent), status, _) => {
                Answer::Failing { percent, status: status.unwrap_or(503), seed: self.seed }
            }
            (None, Some(status), _) => Answer::Status(status),
            (None, None, Some(defect)) => Answer::Malformed(defect),
            (None, None, None) if self.hang => Answer::Hang,
            (None, None, None) => Answer::Good,
        };
        Behaviour::answering(answer).slow(self.slow)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            _ = say_error(&message);
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<(), String> {
    let behaviour = args.behaviour().checked().map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(args.addr).await.map_err(|error| {
        format!("cannot listen on {}: {error}; give another --addr, or port 0 for a free one", args.addr)
    })?;
    let settings = Settings { amount: args.amount, currency: args.currency, token: args.token };
    let provider = Provider::start(listener, settings, behaviour).map_err(|error| error.to_string())?;
    say(&provider.addr().to_string()).map_err(|error| error.to_string())?;
    told_to_stop(args.until_stdin_ends).await;
    provider.stop().await;
    Ok(())
}

fn say_error(message: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stderr(), "provider: {message}")
}
