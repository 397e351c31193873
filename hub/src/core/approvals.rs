//! Questions, answers, and the only door to a decision.

use crate::model::answer::{NotDecided, PERSON_MS_MIN, REFUSED_KEPT, RefusedAnswer};
use crate::model::call::{Binding, Seq};
use crate::model::digest::Digest;
use crate::model::journal::{Entry, Question};
use crate::model::policy::{Channel, Choice};
use crate::model::time::WallMs;
use std::collections::{BTreeMap, BTreeSet};

/// The questions of one run, and which of them are decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Docket {
    questions: BTreeMap<Seq, Question>,
    decided: BTreeMap<Seq, Choice>,
    /// Single-use numbers that were used, whatever came of it.
    used: BTreeSet<Digest>,
    /// How many refused answers are on record.
    refused: usize,
}

/// What a person answered, before anything is recorded. It says nothing by itself: only
/// [`Docket::decide`] makes a decision of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The question it answers.
    pub seq: Seq,
    /// What the person was shown to be bound to.
    pub binding: Binding,
    /// What they chose.
    pub choice: Choice,
    /// Where they chose it.
    pub channel: Channel,
    /// What came with it, if a client's own prompt carried it.
    pub slip: Option<Slip>,
}

/// What the state that a client sent back says about its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slip {
    /// Good for one answer.
    pub nonce: Digest,
    /// When the question was first sent to that client.
    pub sent: WallMs,
    /// Whether that client is still believed to put its prompts to a person.
    pub heard: bool,
}

/// A person's decision. Cannot be made anywhere else, cannot be read back from text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    seqs: Vec<Seq>,
    choice: Choice,
    channel: Channel,
    wall: WallMs,
    binding: Binding,
    nonce: Option<Digest>,
}

impl Docket {
    /// The docket of a journal.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Docket {
        let mut docket = Docket::default();
        for entry in entries {
            docket.note(entry);
        }
        docket
    }

    /// Takes one more entry into account.
    pub fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Question(question) => {
                // Asked anew, for instance after the tool changed: an older decision is void.
                self.decided.remove(&question.seq);
                self.questions.insert(question.seq, (**question).clone());
            }
            Entry::Decided { seqs, choice, nonce, .. } => {
                self.decided.extend(seqs.iter().map(|seq| (*seq, *choice)));
                self.used.extend(nonce);
            }
            Entry::Settled { seq, .. } => {
                self.questions.remove(seq);
            }
            Entry::Asked { .. }
            | Entry::Sent { .. }
            | Entry::Timer { .. }
            | Entry::Lookup { .. }
            | Entry::Paused { .. }
            | Entry::Resumed { .. }
            | Entry::Ended { .. } => {}
        }
    }

    /// Takes answers into account that decided nothing: what they carried is used up.
    #[must_use]
    pub fn with_refused(mut self, refused: &[RefusedAnswer]) -> Docket {
        self.refused += refused.iter().filter(|refused| refused.why != NotDecided::Forged).count();
        self.used.extend(refused.iter().filter_map(|refused| refused.nonce));
        self
    }

    /// The questions nobody has decided, in the order of their calls.
    pub fn undecided(&self) -> impl Iterator<Item = &Question> {
        self.questions.values().filter(|question| !self.decided.contains_key(&question.seq))
    }

    /// Has a question of this docket expired undecided?
    #[must_use]
    pub fn is_expired(&self, now: WallMs) -> bool {
        self.undecided().any(|question| question.expires <= now)
    }

    /// Makes a decision of a person's answer. "For this run" and "always" cover every undecided call of
    /// the same tool, connection and contract. `believed` is the wall time that expiry goes by.
    ///
    /// # Errors
    /// The answer is late, foreign, or more than was shown; it changes nothing.
    pub fn decide(
        &self,
        answer: &Answer,
        now: WallMs,
        believed: WallMs,
    ) -> Result<Decision, NotDecided> {
        let question = self.questions.get(&answer.seq).ok_or(NotDecided::NotPending)?;
        if self.decided.contains_key(&answer.seq) {
            return Err(NotDecided::AlreadyDecided);
        }
        if let Some(slip) = &answer.slip {
            self.check(slip, now)?;
        }
        if question.binding != answer.binding {
            return Err(NotDecided::Differs);
        }
        if question.expires <= believed {
            return Err(NotDecided::Expired);
        }
        let alone = match answer.choice {
            Choice::Once | Choice::Deny => true,
            Choice::Run | Choice::Always => false,
        };
        let covers = |other: &&Question| {
            let (a, b) = (&other.binding, &question.binding);
            other.seq == question.seq
                || !alone
                    && a.tool == b.tool
                    && a.connection == b.connection
                    && a.contract == b.contract
        };
        // A wide answer covers what others of the tool ask as well, and nobody allows what was not shown.
        if !alone && self.undecided().filter(covers).any(|covered| covered.hidden_bytes > 0) {
            return Err(NotDecided::CutPreview);
        }
        let seqs = self.undecided().filter(covers).map(|covered| covered.seq).collect();
        let (choice, channel) = (answer.choice, answer.channel);
        let nonce = answer.slip.map(|slip| slip.nonce);
        Ok(Decision { seqs, choice, channel, wall: now, binding: question.binding.clone(), nonce })
    }

    /// A client's answer counts once, and only if a person can have given it.
    fn check(&self, slip: &Slip, now: WallMs) -> Result<(), NotDecided> {
        if self.used.contains(&slip.nonce) {
            return Err(NotDecided::Used);
        }
        // Once no more refusals can be written down, a refused answer could come again.
        if !slip.heard || self.refused >= REFUSED_KEPT {
            return Err(NotDecided::NotHeard);
        }
        // A clock that went back says nothing about how long the question was there.
        match now.0.checked_sub(slip.sent.0) {
            Some(ms) if ms >= PERSON_MS_MIN => Ok(()),
            Some(_) | None => Err(NotDecided::TooFast),
        }
    }
}

impl Answer {
    /// How the answer is kept when it decides nothing.
    #[must_use]
    pub fn refused(&self, why: NotDecided, wall: WallMs) -> RefusedAnswer {
        RefusedAnswer {
            seq: Some(self.seq),
            choice: Some(self.choice),
            channel: self.channel,
            why,
            wall,
            nonce: self.slip.map(|slip| slip.nonce),
        }
    }
}

impl Decision {
    /// The entry that records it.
    #[must_use]
    pub fn entry(&self) -> Entry {
        Entry::Decided {
            seqs: self.seqs.clone(),
            choice: self.choice,
            channel: self.channel,
            wall: self.wall,
            nonce: self.nonce,
        }
    }

    /// The calls it covers.
    #[must_use]
    pub fn seqs(&self) -> &[Seq] {
        &self.seqs
    }

    /// What the person chose.
    #[must_use]
    pub fn choice(&self) -> Choice {
        self.choice
    }

    /// What it is bound to; for an "always", what the rule is about.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        &self.binding
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests of the door itself")]
    use super::*;
    use crate::model::ids::SourceId;
    use crate::model::names::ToolRef;

    fn binding(tool: &str, arguments: &str) -> Binding {
        Binding {
            tool: ToolRef { source: SourceId::from_random([1; 10]), raw: tool.parse().unwrap() },
            connection: None,
            contract: Digest::of(b"v1"),
            arguments: Digest::of(arguments.as_bytes()),
        }
    }

    fn question(seq: u32, tool: &str, hidden_bytes: u64) -> Entry {
        Entry::Question(Box::new(Question {
            seq: Seq(seq),
            binding: binding(tool, &seq.to_string()),
            address: format!("slack.{tool}"),
            says: String::new(),
            preview: "{}".to_owned(),
            hidden_bytes,
            because: vec![],
            changes: vec![],
            asked: WallMs(0),
            expires: WallMs(100_000),
            line: None,
        }))
    }

    #[track_caller]
    fn check(entries: &[Entry], seq: u32, tool: &str, choice: Choice, now: u64, expected: &str) {
        let binding = binding(tool, &seq.to_string());
        let answer =
            Answer { seq: Seq(seq), binding, choice, channel: Channel::Terminal, slip: None };
        let shown = match Docket::of(entries).decide(&answer, WallMs(now), WallMs(now)) {
            Ok(decision) => {
                decision.seqs().iter().map(Seq::to_string).collect::<Vec<_>>().join(" ")
            }
            Err(why) => why.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn once_and_deny_cover_one_call_and_the_others_every_call_of_the_tool() {
        let asked = [question(1, "post", 0), question(2, "post", 0), question(3, "delete", 0)];
        check(&asked, 1, "post", Choice::Once, 0, "c1");
        check(&asked, 2, "post", Choice::Deny, 0, "c2");
        check(&asked, 2, "post", Choice::Run, 0, "c1 c2");
        check(&asked, 1, "post", Choice::Always, 0, "c1 c2");
    }

    #[test]
    fn late_foreign_and_blind_answers_decide_nothing() {
        let asked = [question(1, "post", 0), question(2, "post", 7)];
        check(&asked, 9, "post", Choice::Once, 0, "no call with this number waits for a decision");
        check(
            &asked,
            1,
            "delete",
            Choice::Once,
            0,
            "the call that waits differs from the one that was shown",
        );
        check(&asked, 1, "post", Choice::Once, 100_000, "the question has expired");
        check(
            &asked,
            2,
            "post",
            Choice::Run,
            0,
            "part of the arguments was not shown, so only this one call can be allowed",
        );
        let cut = "part of the arguments was not shown, so only this one call can be allowed";
        check(&asked, 1, "post", Choice::Run, 0, cut);
        let decided = Docket::of(&asked)
            .decide(
                &Answer {
                    seq: Seq(1),
                    binding: binding("post", "1"),
                    choice: Choice::Deny,
                    channel: Channel::Page,
                    slip: None,
                },
                WallMs(1),
                WallMs(1),
            )
            .unwrap();
        let mut entries = asked.to_vec();
        entries.push(decided.entry());
        check(&entries, 1, "post", Choice::Once, 2, "this call is already decided");
        assert_eq!(Docket::of(&entries).undecided().count(), 1);
        assert!(Docket::of(&entries).is_expired(WallMs(100_000)));
    }

    fn from_client(sent: u64, heard: bool) -> Answer {
        let slip = Slip { nonce: Digest::of(b"n"), sent: WallMs(sent), heard };
        let (seq, choice) = (Seq(1), Choice::Once);
        let binding = binding("post", "1");
        Answer { seq, binding, choice, channel: Channel::Client, slip: Some(slip) }
    }

    #[test]
    fn a_clients_answer_counts_once_and_not_within_a_second() {
        let asked = [question(1, "post", 0)];
        let decide = |docket: &Docket, answer: &Answer, now| {
            docket.decide(answer, WallMs(now), WallMs(now)).map(|decision| decision.entry())
        };
        let docket = Docket::of(&asked);
        let answer = from_client(5_000, true);
        assert_eq!(decide(&docket, &answer, 5_999), Err(NotDecided::TooFast));
        assert_eq!(decide(&docket, &answer, 4_000), Err(NotDecided::TooFast));
        let entry = decide(&docket, &answer, 6_000).unwrap();
        assert_eq!(decide(&docket, &from_client(5_000, false), 6_000), Err(NotDecided::NotHeard));
        // A refusal uses the answer up as a decision does, even where the call is asked about anew.
        let refused = answer.refused(NotDecided::TooFast, WallMs(5_999));
        let after = docket.clone().with_refused(std::slice::from_ref(&refused));
        assert_eq!(decide(&after, &answer, 7_000), Err(NotDecided::Used));
        let mut anew = Docket::of(&[asked[0].clone(), entry]);
        assert_eq!(decide(&anew, &answer, 7_000), Err(NotDecided::AlreadyDecided));
        anew.note(&asked[0]);
        assert_eq!(decide(&anew, &answer, 7_000), Err(NotDecided::Used));
        let full =
            docket.with_refused(&vec![RefusedAnswer { nonce: None, ..refused }; REFUSED_KEPT]);
        assert_eq!(decide(&full, &answer, 7_000), Err(NotDecided::NotHeard));
    }
}
