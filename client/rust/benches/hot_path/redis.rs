//! A breaker in a network store: one script per call that looks at the state and counts.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{Failure, plan::Plan};

const NAME: &str = "Redis EVALSHA per call, loopback, 1 in flight";
/// Far longer than it takes to start.
const BOUND: Duration = Duration::from_secs(10);

/// The check and the count of one call: is it open, else one more call in this second's bucket.
const SCRIPT: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
                      redis.call('HINCRBY', KEYS[2], ARGV[1], 1) \
                      redis.call('EXPIRE', KEYS[2], 10) \
                      return 1";

/// The line to print.
pub(crate) fn line(plan: Plan) -> Result<String, Failure> {
    let Some(redis) = Redis::start()? else {
        return Ok(format!("{NAME}: SKIPPED, there is no redis-server here: apt-get install redis-server"));
    };
    let mut connection = Connection::open(redis.port)?;
    let sha = connection.ask(&["SCRIPT", "LOAD", SCRIPT])?;
    let mut spans = Vec::with_capacity(plan.redis_calls);
    for n in 0..plan.redis_calls {
        let began = Instant::now();
        let bucket = (n / 1_000).to_string();
        let admitted = connection.ask(&["EVALSHA", &sha, "2", "breaker:open", "breaker:calls", &bucket])?;
        spans.push(began.elapsed());
        if admitted != ":1" {
            return Err(format!("the script answered {admitted:?}, not \":1\"").into());
        }
    }
    spans.sort();
    let at = |percent: usize| spans[(spans.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    Ok(format!("{NAME}: {:.1} us median, {:.1} us p99", at(50), at(99)))
}

/// A server of our own, without a disk.
struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    /// None if it is not installed.
    fn start() -> Result<Option<Self>, Failure> {
        // It takes no port 0. Nobody else takes this one in the meantime, or the start fails loudly.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let started = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(child) => Ok(Some(Self { child, port })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It has nothing to lose.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// One connection that waits for each answer.
struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(port: u16) -> Result<Self, Failure> {
        let began = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) if began.elapsed() > BOUND => return Err(error.into()),
                Err(_) => thread::yield_now(),
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(BOUND))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// One command, one answer: a bulk string's text, else the line as it came.
    fn ask(&mut self, words: &[&str]) -> Result<String, Failure> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(command.as_bytes())?;
        let line = self.line()?;
        match line.as_bytes().first() {
            Some(b'-') => Err(format!("redis says {line:?}").into()),
            Some(b'$') => self.line(),
            _ => Ok(line),
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
