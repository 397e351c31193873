//! Fakes and real parts pass the same suites.

use hub::adapters::clock::SystemClock;
use hub::adapters::entropy::SystemEntropy;
use hub::adapters::secrets::KeptSecrets;
use hub::adapters::sources::McpSources;
use hub::adapters::store::FileStore;
use hub::model::ids::SourceId;
use hub::model::source::{Consent, SourceRecord, StdioCommand, Transport};
use hub::model::time::{Tick, WallMs};
use hub::ports::clock::Clock as _;
use hub::ports::secrets::Secrets as _;
use hub::ports::sources::Route;
use serde_json::json;
use sim::conformance::{small, sources, store};
use sim::fakes::{
    Disk, FakeTool, Faults, History, SimClock, SimEntropy, SimSecrets, SimSources, Upstreams,
};
use sim::seed::Seed;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SECRET: &str = "s3cr3t-t0ken";

#[tokio::test]
async fn the_store_in_files() {
    let home = tempfile::tempdir().expect("a folder");
    store::store(&FileStore::new(home.path().join("hub"))).await;
}

#[tokio::test(start_paused = true)]
async fn the_store_in_memory() {
    store::store(&Disk::default().store(Faults::default(), History::default())).await;
}

#[tokio::test]
async fn the_system_s_clock_and_randomness() {
    small::clock(&SystemClock::new()).await;
    small::entropy(&SystemEntropy);
}

#[tokio::test(start_paused = true)]
async fn the_simulated_clock_and_randomness() {
    small::clock(&SimClock::new(WallMs(1_800_000_000_000))).await;
    small::entropy(&SimEntropy::new(Seed(1), 1));
}

#[test]
fn secrets_of_the_environment_and_simulated_ones() {
    let real = KeptSecrets::new(
        [("TOKEN".to_owned(), SECRET.to_owned())],
        "/nonexistent".into(),
        "/nonexistent".into(),
    );
    real.know(&Transport::Stdio(command("/bin/x", &[], &["TOKEN"])));
    small::secrets(&real, SECRET);
    small::secrets(&SimSecrets::of(vec![SECRET.to_owned()]), SECRET);
}

fn command(program: &str, args: &[&str], pass: &[&str]) -> StdioCommand {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    StdioCommand {
        program: program.to_owned(),
        args: texts(args),
        cwd: "/".to_owned(),
        path: "/usr/bin:/bin".to_owned(),
        set: BTreeMap::new(),
        pass: texts(pass),
    }
}

fn record(transport: Transport) -> SourceRecord {
    SourceRecord {
        id: SourceId::from_random([3; 10]),
        namespace: "notes".parse().expect("a namespace"),
        label: None,
        consent: Some(Consent { transport: transport.digest(), given: WallMs(1) }),
        transport,
        added: WallMs(1),
    }
}

#[tokio::test]
async fn a_real_server_over_its_standard_streams() {
    let home = tempfile::tempdir().expect("a folder");
    let log = home.path().join("log").to_string_lossy().into_owned();
    let program = env!("CARGO_BIN_EXE_sim");
    let source = record(Transport::Stdio(command(
        program,
        &["server", "--log", &log, "--script", "notes"],
        &[],
    )));
    let clock = SystemClock::new();
    let real = McpSources::new(
        Arc::new(KeptSecrets::new([], "/nonexistent".into(), "/nonexistent".into())),
        clock,
        program.into(),
    );
    let deadline = clock.tick().after(Duration::from_secs(60));
    let route = Route { record: source, connection: None };
    sources::sources(&real, &route, "list_notes", &json!({}), deadline).await;
}

#[tokio::test(start_paused = true)]
async fn a_simulated_server() {
    let history = History::default();
    let upstreams = Upstreams::new(Seed(1), history);
    let source = record(Transport::Stdio(command("/bin/x", &[], &[])));
    upstreams
        .offer(&source.id, vec![FakeTool { name: "get".to_owned(), read_only: true, edition: 1 }]);
    let fake = SimSources::new(upstreams, Faults::default());
    let route = Route { record: source, connection: None };
    sources::sources(&fake, &route, "get", &json!({ "k": 1 }), Tick(Duration::from_secs(60))).await;
}
