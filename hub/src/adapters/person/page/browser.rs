//! Opens the person's browser: no shell, one address of this machine, nothing to read or write.
#![expect(clippy::disallowed_methods, reason = "a browser is waited for beside everything else")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// The only addresses that are ever opened begin with this.
const SCHEME: &str = "http://127.0.0.1:";
/// Folders that openers are looked for in: never the search path, which a project may have changed.
const FOLDERS: &[&str] = &["/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin"];
/// How long an opener may take to say that it failed.
const FAILS_WITHIN: Duration = Duration::from_millis(700);

/// What the environment says about the person's desktop.
#[derive(Debug, Clone, Default)]
pub struct Desktop {
    /// `BROWSER`.
    pub browser: Option<String>,
    /// Is there a screen: `DISPLAY` or `WAYLAND_DISPLAY`, or is this Windows' own Linux?
    pub has_screen: bool,
}

/// A command that opens an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browser {
    program: PathBuf,
    /// Arguments; `%s` stands for the address.
    arguments: Vec<String>,
}

impl Browser {
    /// The browser of this desktop, if it has one.
    #[must_use]
    pub fn find(desktop: &Desktop) -> Option<Browser> {
        let named = desktop.browser.iter().flat_map(|list| list.split(':')).find_map(Self::named);
        named.or_else(|| {
            if cfg!(target_os = "macos") {
                return Self::at(Path::new("/usr/bin/open"), &[]);
            }
            if !desktop.has_screen {
                return None;
            }
            ["xdg-open", "wslview"].iter().find_map(|name| Self::in_folders(name, &[]))
        })
    }

    /// The program that opens pages.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// One entry of `BROWSER`: a program, by its path or a name, with arguments.
    fn named(entry: &str) -> Option<Browser> {
        let mut words = entry.split_whitespace();
        let program = words.next()?;
        let arguments: Vec<&str> = words.collect();
        if program.contains('/') {
            let path = Path::new(program);
            return path.is_absolute().then(|| Self::at(path, &arguments)).flatten();
        }
        Self::in_folders(program, &arguments)
    }

    fn in_folders(name: &str, arguments: &[&str]) -> Option<Browser> {
        FOLDERS.iter().find_map(|folder| Self::at(&Path::new(folder).join(name), arguments))
    }

    fn at(program: &Path, arguments: &[&str]) -> Option<Browser> {
        let mut arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        if !arguments.iter().any(|word| word.contains("%s")) {
            arguments.push("%s".to_owned());
        }
        program.is_file().then(|| Browser { program: program.to_owned(), arguments })
    }

    /// Opens `address`.
    ///
    /// # Errors
    /// It is no address of an approval page, or the browser did not start.
    pub async fn open(&self, address: &str) -> Result<(), String> {
        if !address.starts_with(SCHEME) {
            return Err("only approval pages are opened".to_owned());
        }
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(self.arguments.iter().map(|word| word.replace("%s", address)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // It outlives this process.
            .process_group(0)
            .kill_on_drop(false);
        let program = self.program.display().to_string();
        let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        // Some openers stay as long as the browser does; one that fails says so at once.
        let failed = Arc::new(tokio::sync::Notify::new());
        let (ends, told) = (Arc::clone(&failed), failed);
        let waited = tokio::spawn(async move {
            let status = child.wait().await;
            ends.notify_one();
            status.is_ok_and(|status| status.success())
        });
        tokio::select! {
            biased;
            () = told.notified() => match waited.await {
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => Err(format!("{program} could not open a page")),
            },
            () = tokio::time::sleep(FAILS_WITHIN) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desktop(browser: Option<&str>, has_screen: bool) -> Desktop {
        Desktop { browser: browser.map(str::to_owned), has_screen }
    }

    #[test]
    fn a_browser_is_what_the_environment_names_and_never_something_of_the_search_path() {
        let found = |browser| Browser::find(&desktop(Some(browser), false));
        let sh = Browser { program: "/bin/sh".into(), arguments: vec!["%s".to_owned()] };
        assert_eq!(found("/bin/sh"), Some(sh.clone()));
        assert_eq!(found("./evil:nothing-of-that-name:/bin/sh"), Some(sh));
        let with = found("/bin/sh -c %s --new").expect("there is a shell");
        assert_eq!(with.arguments, ["-c", "%s", "--new"]);
        assert_eq!(found("evil/sh"), None);
        assert_eq!(found(""), None);
        if !cfg!(target_os = "macos") {
            assert_eq!(Browser::find(&desktop(None, false)), None);
        }
    }

    #[tokio::test]
    async fn only_pages_of_this_machine_are_opened_and_failures_are_told() {
        let find = |name| Browser::find(&desktop(Some(name), false)).expect("it is there");
        let page = "http://127.0.0.1:9/x";
        for other in ["https://example.com", "file:///etc/passwd", "http://127.0.0.1.evil.com/"] {
            assert!(find("true").open(other).await.is_err(), "{other}");
        }
        assert_eq!(find("true").open(page).await, Ok(()));
        assert!(find("false").open(page).await.is_err());
    }
}
