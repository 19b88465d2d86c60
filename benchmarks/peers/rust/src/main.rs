//! netflow_parser, parse only: the records of a datagram are counted and discarded.
//!
//! ```text
//! PROGRAM version       prints the version of the peer
//! PROGRAM run WORKLOAD  prints "ready FLOWS", then answers each line SECONDS with a line "PASSES NANOSECONDS"
//! ```
//!
//! benchmarks/peers/harness.py runs this program and describes the workload file.

use std::error::Error;
use std::hint::black_box;
use std::io::{Write, stdin, stdout};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;
use std::{env, fs};

use cpu_time::ProcessTime;
use netflow_parser::scoped_parser::AutoScopedParser;
use netflow_parser::{NetflowPacket, variable_versions::ipfix, variable_versions::v9};

struct Datagram {
    source: SocketAddr,
    payload: Vec<u8>,
}

struct Workload {
    first: Vec<Datagram>,
    data: Vec<Datagram>,
}

/// Reads numbers and bytes from a workload file.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Box<dyn Error>> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("the workload is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, Box<dyn Error>> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into()?))
    }

    fn datagram(&mut self) -> Result<Datagram, Box<dyn Error>> {
        let length = self.u32()? as usize;
        let address: [u8; 16] = self.take(16)?.try_into()?;
        let port = u16::from_le_bytes(self.take(2)?.try_into()?);
        self.take(8)?; // the time: netflow_parser does not use it
        let source = SocketAddr::new(Ipv6Addr::from(address).to_canonical(), port);
        Ok(Datagram {
            source,
            payload: self.take(length)?.to_vec(),
        })
    }

    fn datagrams(&mut self, count: u32) -> Result<Vec<Datagram>, Box<dyn Error>> {
        (0..count).map(|_| self.datagram()).collect()
    }
}

fn load(path: &str) -> Result<Workload, Box<dyn Error>> {
    let content = fs::read(path)?;
    let mut reader = Reader(&content);
    let (first, data) = (reader.u32()?, reader.u32()?);
    Ok(Workload {
        first: reader.datagrams(first)?,
        data: reader.datagrams(data)?,
    })
}

/// Parses datagrams with the crate's parser for several exporters.
fn pass(parser: &mut AutoScopedParser, datagrams: &[Datagram]) {
    for datagram in datagrams {
        let _ = black_box(parser.parse_from_source(datagram.source, &datagram.payload));
    }
}

fn count_flows(parser: &mut AutoScopedParser, datagrams: &[Datagram]) -> usize {
    let mut flows = 0;
    for datagram in datagrams {
        let parsed = parser.parse_from_source(datagram.source, &datagram.payload);
        flows += parsed.packets.iter().map(flows_of).sum::<usize>();
    }
    flows
}

/// Returns the number of data records. Options records do not count.
fn flows_of(packet: &NetflowPacket) -> usize {
    match packet {
        NetflowPacket::V5(v5) => v5.flowsets.len(),
        NetflowPacket::V9(v9) => v9.flowsets.iter().map(|set| flows_of_v9(&set.body)).sum(),
        NetflowPacket::IPFix(ipfix) => ipfix.flowsets.iter().map(|set| flows_of_ipfix(&set.body)).sum(),
        _ => 0,
    }
}

fn flows_of_v9(body: &v9::FlowSetBody) -> usize {
    match body {
        v9::FlowSetBody::Data(data) => data.fields.len(),
        _ => 0,
    }
}

fn flows_of_ipfix(body: &ipfix::FlowSetBody) -> usize {
    match body {
        ipfix::FlowSetBody::Data(data) => data.fields.len(),
        _ => 0,
    }
}

fn measure(parser: &mut AutoScopedParser, data: &[Datagram], least: Duration) -> (u64, Duration) {
    let start = ProcessTime::now();
    let mut passes = 0;
    loop {
        pass(parser, data);
        passes += 1;
        let elapsed = start.elapsed();
        if elapsed >= least {
            return (passes, elapsed);
        }
    }
}

fn run(path: &str) -> Result<(), Box<dyn Error>> {
    let workload = load(path)?;
    let mut parser = AutoScopedParser::new();
    pass(&mut parser, &workload.first);
    println!("ready {}", count_flows(&mut parser, &workload.data));
    stdout().flush()?;
    for line in stdin().lines() {
        let least = Duration::try_from_secs_f64(line?.trim().parse()?)?;
        let (passes, elapsed) = measure(&mut parser, &workload.data, least);
        println!("{passes} {}", elapsed.as_nanos());
        stdout().flush()?;
    }
    Ok(())
}

/// Returns the version of netflow_parser in the lock file of this build.
fn version() -> &'static str {
    let mut lines = include_str!("../Cargo.lock").lines();
    lines.find(|line| *line == "name = \"netflow_parser\"");
    let version = lines.next().and_then(|line| line.split('"').nth(1));
    version.unwrap_or("unknown")
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["version"] => println!("{}", version()),
        ["run", path] => run(path)?,
        _ => return Err("version or run WORKLOAD".into()),
    }
    Ok(())
}
