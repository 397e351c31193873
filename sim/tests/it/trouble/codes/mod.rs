//! Every error code, really caused: what the model is told, what a person reads, and the exit status.

mod scene;
mod special;

use hub::model::error::ErrorCode;
use scene::{Scene, Told};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How a code is caused.
enum Cause {
    /// A run of this code fails with it.
    Run(&'static str),
    /// This call fails with it, and the code can catch that.
    Call(&'static str),
    /// By a story of its own.
    Story(fn() -> Told),
    /// It cannot be caused, for this reason.
    Not(&'static str),
}

/// Every code with its cause. A code that is missing here fails the test.
fn causes() -> BTreeMap<ErrorCode, Cause> {
    use Cause::{Call, Not, Run, Story};
    use ErrorCode as Code;
    BTreeMap::from([
        (Code::InvalidInput, Story(special::invalid_input)),
        (Code::CodeTooLarge, Story(special::code_too_large)),
        (Code::SyntaxError, Run("const all = await notes.listNotes();\nreturn all.notes[0.text")),
        (Code::UnsupportedSyntax, Run("enum Kind { Note }\nreturn Kind.Note")),
        (Code::SecretInCode, Story(special::secret_in_code)),
        (Code::UncaughtError, Run("const all = 1;\nthrow new Error('no milk')")),
        (Code::NeverSettles, Run("return await new Promise(() => {})")),
        (Code::ResultNotJson, Run("const all = {}; all.all = all; return all")),
        (Code::ComputeLimit, Run("for (;;) {}")),
        (Code::WallLimit, Run("await new Promise((done) => setTimeout(done, 30000))")),
        (
            Code::MemoryLimit,
            Run("const all = []; for (;;) all.push(new Array(1000).fill(all.length))"),
        ),
        (Code::CallLimit, Run("for (let n = 0; n < 9; n += 1) await notes.listNotes()")),
        (Code::RequestLimit, Run("for (let n = 0; n < 201; n += 1) await hub.search('x')")),
        (Code::ReplayLimit, Story(special::replay_limit)),
        (Code::SandboxCrashed, Story(special::sandbox_crashed)),
        (Code::SandboxUnavailable, Story(special::sandbox_unavailable)),
        (Code::Divergence, Story(special::divergence)),
        (Code::RunExpired, Story(special::run_expired)),
        (Code::RunCancelled, Story(special::run_cancelled)),
        (Code::UnknownRun, Story(special::unknown_run)),
        (Code::JournalCorrupt, Story(special::journal_corrupt)),
        (Code::JournalWriteFailed, Story(special::journal_write_failed)),
        (Code::HubUpgraded, Story(special::hub_upgraded)),
        (Code::StoreFailed, Story(special::store_failed)),
        (Code::InvalidArguments, Call("notes.addNote({ txt: 'x' })")),
        (Code::SecretInArguments, Story(special::secret_in_arguments)),
        (Code::UnknownConnection, Call("notes.listNotes({}, { connection: 'work' })")),
        (Code::CredentialMissing, Story(special::credential_missing)),
        (Code::CredentialElsewhere, Story(special::credential_elsewhere)),
        (Code::KeychainLocked, Not("it needs a locked keychain; `secrets::keychain` has one")),
        (Code::KeychainUnavailable, Story(special::keychain_unavailable)),
        (Code::DeniedByPolicy, Call("notes.deleteNote({ id: 1 })")),
        (Code::ApprovalDenied, Story(special::approval_denied)),
        (Code::ToolGone, Story(special::tool_gone)),
        (Code::SourceRemoved, Story(special::source_removed)),
        (Code::SourceUnavailable, Story(special::source_unavailable)),
        (Code::UpstreamError, Call("notes.refuseNote()")),
        (Code::UpstreamUnauthorized, Story(|| special::answered_with(401))),
        (Code::UpstreamForbidden, Story(|| special::answered_with(403))),
        (Code::UpstreamRateLimited, Story(|| special::answered_with(429))),
        (Code::UpstreamTimeout, Call("notes.hangRead()")),
        (Code::OutcomeUnknown, Call("notes.hangWrite({ text: 'x' })")),
        (Code::ResultTooLarge, Call("notes.addNote({ text: 'x'.repeat(1000) })")),
        (Code::ApprovalSurface, Story(special::approval_surface)),
        (Code::BadApprovalState, Story(special::bad_approval_state)),
        (Code::Bug, Not("it would be a fault of the hub")),
    ])
}

#[test]
fn every_code_says_what_where_and_what_to_do() {
    let causes = causes();
    let mut scene = Scene::new();
    let mut text = String::new();
    for code in ErrorCode::ALL {
        let cause = causes.get(code).unwrap_or_else(|| panic!("nothing causes `{code}`"));
        let told = match cause {
            Cause::Run(program) => scene.run(program),
            Cause::Call(expression) => scene.call(expression),
            Cause::Story(story) => story(),
            Cause::Not(why) => {
                let _ = writeln!(text, "== {code}\nnot caused: {why}\n");
                continue;
            }
        };
        assert_eq!(told.code, code.as_str(), "{told:#?}");
        assert!(!told.message.is_empty() && !told.hint.is_empty(), "{told:#?}");
        let _ = writeln!(text, "== {code}\n{}\n{}", told.message, told.hint);
        match &told.person {
            Some((said, status)) => {
                assert!(said.contains(&told.hint) || said.contains("  "), "{told:#?}");
                let _ = writeln!(text, "-- a person\n{}\nexit status {status}\n", said.trim_end());
            }
            None => text.push_str("-- no person sees it\n\n"),
        }
    }
    insta::assert_snapshot!(text);
}
