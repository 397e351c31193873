//! What every clock, every source of randomness and every keeper of secrets must do.

use hub::model::source::{StdioCommand, Transport};
use hub::model::time::Tick;
use hub::ports::clock::Clock;
use hub::ports::entropy::Entropy;
use hub::ports::secrets::Secrets;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Ticks never go back, and a sleep never ends early.
///
/// # Panics
/// The clock breaks that.
pub async fn clock<C: Clock>(clock: &C) {
    let start = clock.tick();
    assert!(clock.tick() >= start, "a tick went back");
    let deadline = start.after(Duration::from_millis(5));
    clock.sleep_until(deadline).await;
    assert!(clock.tick() >= deadline, "woke early");
    clock.sleep_until(Tick::default()).await;
    assert!(clock.wall().0 > 1_600_000_000_000, "wall time is milliseconds since 1970");
}

/// Bytes differ from one call to the next, and every byte is filled.
///
/// # Panics
/// They do not.
pub fn entropy<E: Entropy>(entropy: &E) {
    let (mut one, mut other) = ([0; 64], [0; 64]);
    entropy.fill(&mut one);
    entropy.fill(&mut other);
    assert_ne!(one, other);
    let different: BTreeSet<u8> = one.into_iter().collect();
    assert!(different.len() > 20, "{different:?}");
}

/// `secret` is known and taken out of everything; other text is left alone.
///
/// # Panics
/// It is not.
pub fn secrets<S: Secrets>(secrets: &S, secret: &str) {
    assert!(secrets.carries_secret(&format!("a {secret} b")));
    assert_eq!(secrets.scrub(&format!("a {secret} b")), "a [secret] b");
    assert_eq!(secrets.scrub("nothing here"), "nothing here");
    assert!(!secrets.carries_secret("nothing here"));
    let mut value = json!({ "k": [secret, 1], secret: null });
    secrets.scrub_value(&mut value);
    assert_eq!(value, json!({ "k": ["[secret]", 1], "[secret]": null }));
    let missing = StdioCommand {
        program: "/bin/x".to_owned(),
        args: Vec::new(),
        cwd: "/".to_owned(),
        path: "/bin".to_owned(),
        set: BTreeMap::from([("MODE".to_owned(), "quiet".to_owned())]),
        pass: vec!["NO_SUCH_VARIABLE".to_owned()],
    };
    let none = BTreeSet::new();
    assert!(
        secrets.environment(&missing, &none).is_err(),
        "a variable that is not set is an error"
    );
    secrets.know(&Transport::Stdio(missing.clone()));
    let plain = StdioCommand { pass: Vec::new(), ..missing };
    let environment = secrets.environment(&plain, &none).expect("nothing is missing");
    assert!(environment.contains(&("MODE".to_owned(), "quiet".to_owned())));
}
