//! A real Chromium, driven over its own protocol.

use crate::support::TestHub;
use chromiumoxide::browser::{Browser, BrowserConfig};
use chromiumoxide::cdp::browser_protocol::emulation::{
    MediaFeature, SetDeviceMetricsOverrideParams, SetFocusEmulationEnabledParams,
    SetScriptExecutionDisabledParams,
};
use chromiumoxide::cdp::browser_protocol::input::{DispatchKeyEventParams, DispatchKeyEventType};
use chromiumoxide::layout::Point;
use chromiumoxide::page::{Page, ScreenshotParams};
use futures::StreamExt as _;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the page is looked at, and how long at most.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const WITHIN: Duration = Duration::from_secs(20);

/// The browser of this machine; without one the test says so and does nothing.
fn found() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    let found = folders.find_map(|folder| {
        names.iter().map(|name| folder.join(name)).find(|program| program.is_file())
    });
    if found.is_none() {
        eprintln!("skipped: there is no Chromium here; run scripts/packages");
    }
    found
}

/// Runs a test in a browser of its own, with a profile of its own.
pub(super) fn in_browser<F: Future<Output = ()>>(hub: &TestHub, test: impl FnOnce(Tab) -> F) {
    let Some(program) = found() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let profile = hub.file(&format!("chromium-{}", std::process::id()));
        let config = BrowserConfig::builder()
            .chrome_executable(program)
            .no_sandbox()
            .user_data_dir(&profile)
            .env("HOME", profile.display().to_string())
            .viewport(None)
            .window_size(1000, 1000)
            .args([
                "--headless",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
            ])
            .build()
            .expect("a configuration");
        let (mut browser, mut events) = Browser::launch(config).await.expect("a browser");
        let pump = tokio::spawn(async move { while events.next().await.is_some() {} });
        let page = browser.new_page("about:blank").await.expect("a page");
        page.execute(SetFocusEmulationEnabledParams::new(true)).await.expect("a focused page");
        test(Tab { page }).await;
        browser.close().await.expect("a browser that closes");
        browser.wait().await.expect("a browser that ends");
        pump.abort();
    });
}

/// One tab.
#[derive(Clone)]
pub(super) struct Tab {
    pub(super) page: Page,
}

impl Tab {
    /// Opens an address.
    pub(super) async fn goto(&self, address: &str) {
        self.page.goto(address).await.expect("a page that opens");
    }

    /// What an expression gives, in the page; tried again while the page is being drawn anew.
    pub(super) async fn js(&self, expression: &str) -> Value {
        let deadline = Instant::now() + WITHIN;
        loop {
            match self.page.evaluate_expression(expression).await {
                Ok(given) => return given.value().cloned().unwrap_or(Value::Null),
                Err(error) => assert!(Instant::now() < deadline, "{expression}: {error}"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(super) async fn text(&self) -> String {
        self.js("document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says something.
    pub(super) async fn says(&self, text: &str) {
        self.waits(&format!("document.body.innerText.includes({})", Value::from(text)), text).await;
    }

    /// Waits until an expression is true.
    pub(super) async fn waits(&self, expression: &str, what: &str) {
        let deadline = Instant::now() + WITHIN;
        loop {
            let given = self.page.evaluate_expression(expression).await;
            if given.is_ok_and(|given| given.value() == Some(&Value::Bool(true))) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what} in\n{}",
                self.text().await
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the choices can be pressed.
    pub(super) async fn awake(&self) {
        let visible =
            "getComputedStyle(document.querySelector('.choices button')).visibility === 'visible'";
        self.waits(visible, "the choices").await;
    }

    /// Presses the button that holds a text, with the mouse.
    pub(super) async fn press(&self, text: &str) {
        // Whoever comes from another window gives the page its focus first, which makes it dead for a moment.
        self.page.click(Point::new(3.0, 3.0)).await.expect("a click");
        self.awake().await;
        let place = format!(
            "(() => {{ const one = Array.from(document.querySelectorAll('button')).find((b) => b.innerText.includes({})); if (!one) return null; one.scrollIntoView({{ block: 'center' }}); const r = one.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            Value::from(text)
        );
        let place = self.js(&place).await;
        let Some((x, y)) = place[0].as_f64().zip(place[1].as_f64()) else {
            panic!("there is no button {text} in\n{}", self.text().await);
        };
        self.page.click(Point::new(x, y)).await.expect("a click");
    }

    /// Presses a key.
    pub(super) async fn key(&self, key: &str, code: i64, text: &str) {
        for kind in [DispatchKeyEventType::KeyDown, DispatchKeyEventType::KeyUp] {
            let down = kind == DispatchKeyEventType::KeyDown;
            // A key without a character of its own is a raw one.
            let kind =
                if down && text.is_empty() { DispatchKeyEventType::RawKeyDown } else { kind };
            let mut event = DispatchKeyEventParams::builder()
                .r#type(kind)
                .key(key)
                .code(key)
                .windows_virtual_key_code(code);
            if down && !text.is_empty() {
                event = event.text(text);
            }
            self.page.execute(event.build().expect("a key")).await.expect("a pressed key");
        }
    }

    pub(super) async fn tab_key(&self) {
        self.key("Tab", 9, "").await;
    }

    pub(super) async fn enter_key(&self) {
        self.key("Enter", 13, "\r").await;
    }

    /// Light or dark, and how wide.
    pub(super) async fn looks(&self, scheme: &str, width: i64) {
        let feature = MediaFeature::new("prefers-color-scheme", scheme);
        self.page.emulate_media_features(vec![feature]).await.expect("a scheme");
        let metrics = SetDeviceMetricsOverrideParams::new(width, 900, 1.0, false);
        self.page.execute(metrics).await.expect("a width");
    }

    pub(super) async fn without_scripts(&self) {
        let off = SetScriptExecutionDisabledParams::new(true);
        self.page.execute(off).await.expect("no scripts");
    }

    /// Keeps a picture, where `SIM_SHOTS` names a folder.
    pub(super) async fn shot(&self, name: &str) {
        if let Some(folder) = std::env::var_os("SIM_SHOTS") {
            let whole = ScreenshotParams::builder().full_page(true).build();
            let picture = self.page.screenshot(whole).await.expect("a picture");
            let path = PathBuf::from(folder).join(format!("{name}.png"));
            std::fs::write(path, picture).expect("written");
        }
    }

    /// What the rules of axe-core find, a line each.
    pub(super) async fn findings(&self, rules: &str) -> Vec<String> {
        // In one: the page may be drawn anew in between.
        let run = "axe.run(document).then((r) => r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(' ')}`))";
        let found = self.js(&format!("{rules};\n{run}")).await;
        let found = found.as_array().cloned().expect("a list");
        found.iter().filter_map(|line| Some(line.as_str()?.to_owned())).collect()
    }
}
