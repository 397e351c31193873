//! Sources: added, listed, reviewed and removed. Only a person's command comes here.

use super::hub::{Hub, HubError, LOCK_WAIT, Taken};
use crate::core::addresses::assign;
use crate::core::contract::{Class, changes, class};
use crate::model::contract::Contract;
use crate::model::digest::Digest;
use crate::model::facts::SourcePolicy;
use crate::model::ids::SourceId;
use crate::model::names::{JsName, Namespace, RawToolName};
use crate::model::policy::{ConnectionScope, Effect, Pin, Policy, Rule, Scope};
use crate::model::source::{
    Consent, MANIFEST_VERSION, Manifest, ManifestTool, SourceRecord, Transport,
};
use crate::model::time::{Tick, WallMs};
use crate::model::visible::one_line;
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::secrets::Secrets as _;
use crate::ports::sources::{CallError, Listing, Sources as _};
use crate::ports::store::{LockName, Store as _, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a source may take to start and list when a person waits for it.
const LIST_WITHIN: Duration = Duration::from_secs(120);

/// A source a person wants to add.
#[derive(Debug, Clone)]
pub struct NewSource {
    /// What it will be called.
    pub namespace: Namespace,
    /// What the person says about it.
    pub label: Option<String>,
    /// How it is reached.
    pub transport: Transport,
    /// Did the person agree to exactly that?
    pub consented: bool,
}

/// What a refresh found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Tools it has.
    pub tools: usize,
    /// Addresses of tools that are new, changed or gone since the last listing.
    pub added: Vec<String>,
    /// As above.
    pub changed: Vec<String>,
    /// As above.
    pub gone: Vec<String>,
    /// What was dropped and why.
    pub notices: Vec<String>,
}

/// One tool that a person has not reviewed as it is.
#[derive(Debug, Clone)]
pub struct ReviewItem {
    /// Its source.
    pub source: SourceId,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name in code.
    pub name: JsName,
    /// Its own name.
    pub raw: RawToolName,
    /// What it claims to be, which is what a review is about.
    pub digest: Digest,
    /// As above, in full.
    pub contract: Contract,
    /// The class it is proposed in.
    pub class: Class,
    /// For a changed tool: what changed.
    pub changes: Option<Vec<String>>,
}

/// A person's word on one tool of a review.
#[derive(Debug, Clone)]
pub struct Reviewed {
    /// The tool as it was shown.
    pub item: ReviewItem,
    /// A rule, where the person did not take the proposal.
    pub rule: Option<Effect>,
}

impl<P: Ports> Hub<P> {
    /// Adds a source. Nothing of it runs.
    ///
    /// # Errors
    /// The namespace is taken, or nothing was written.
    pub async fn add_source(&self, new: NewSource) -> Result<SourceRecord, HubError> {
        let store = self.ports().store();
        let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
        let taken = store
            .sources()
            .await?
            .into_iter()
            .flatten()
            .any(|source| source.namespace == new.namespace);
        if taken {
            return Err(HubError::NamespaceTaken(new.namespace.to_string()));
        }
        let wall = self.ports().clock().wall();
        let transport = new.transport.digest();
        let record = SourceRecord {
            id: self.new_source_id(),
            namespace: new.namespace,
            label: new.label,
            transport: new.transport,
            consent: new.consented.then_some(Consent { transport, given: wall }),
            added: wall,
        };
        store.write_source(&record).await?;
        Ok(record)
    }

    /// Records that a person agreed to run or reach exactly what `record` says.
    ///
    /// # Errors
    /// The source changed meanwhile or is gone; nothing was written.
    pub async fn consent(&self, record: &SourceRecord) -> Result<SourceRecord, HubError> {
        let store = self.ports().store();
        let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
        let current = store.sources().await?.into_iter().flatten().find(|source| source == record);
        let mut current =
            current.ok_or_else(|| HubError::NoSource(record.namespace.to_string()))?;
        let given = self.ports().clock().wall();
        current.consent = Some(Consent { transport: current.transport.digest(), given });
        store.write_source(&current).await?;
        Ok(current)
    }

    /// The source of this namespace, consented or not.
    ///
    /// # Errors
    /// There is none.
    pub async fn source(&self, namespace: &str) -> Result<SourceRecord, HubError> {
        let sources = self.ports().store().sources().await?;
        let found =
            sources.into_iter().flatten().find(|source| source.namespace.as_str() == namespace);
        found.ok_or_else(|| HubError::NoSource(one_line(namespace, 80)))
    }

    /// Removes a source with its rules, reviews and secrets.
    ///
    /// # Errors
    /// There is none, or it may still be there; removing it again is safe.
    pub async fn remove_source(&self, namespace: &str) -> Result<SourceRecord, HubError> {
        let store = self.ports().store();
        let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
        let record = self.source(namespace).await?;
        // First the secrets: without the source nobody would find them again.
        self.forget_secrets(&record).await?;
        store.remove_source(&record.id).await?;
        self.ports().sources().close(&record.id).await;
        Ok(record)
    }

    /// Starts or reaches a source, reads its tools, and says what changed.
    ///
    /// # Errors
    /// Nobody agreed to it, or it cannot be reached; its last good manifest stays.
    pub async fn refresh(&self, record: &SourceRecord) -> Result<Refreshed, HubError> {
        if !record.is_consented() {
            return Err(HubError::NotConsented(record.namespace.to_string()));
        }
        let before = self.ports().store().manifest(&record.id).await.unwrap_or(None);
        let now = self.ports().clock().now();
        let deadline: Tick = now.tick.after(LIST_WITHIN);
        // A tool that shows another source's secret in its description is dropped, if that is known.
        self.learn_secrets(&*self.facts().await?).await?;
        let route = self.default_route(record).await?;
        let listing = self.ports().sources().dial(&route, Some(now.wall), deadline).await;
        let listing = listing.map_err(|error| self.not_listed(record, &error))?;
        self.take_listing(&record.id, &listing, true).await?;
        let after = self.ports().store().manifest(&record.id).await?;
        Ok(difference(&record.namespace, before.as_ref(), after.as_ref()))
    }

    fn not_listed(&self, record: &SourceRecord, error: &CallError) -> HubError {
        let namespace = record.namespace.to_string();
        let why = self.scrub(&error.to_string());
        match error {
            CallError::Credential(error) => HubError::Secrets(error.clone()),
            CallError::Status(refusal) if refusal.status == 401 => {
                HubError::Unauthorized { namespace, why }
            }
            CallError::Status(_)
            | CallError::NotSent(_)
            | CallError::Refused { .. }
            | CallError::TooLarge { .. }
            | CallError::TooDeep
            | CallError::Lost(_) => HubError::Unreachable { namespace, why },
        }
    }

    /// Takes in what a source offers: names are given, contracts compared, and the manifest written if
    /// anything differs. One listing of a source at a time, and it counts as taken in only once it is
    /// stored: a ruling that follows must see it.
    ///
    /// A listing that is older than what another process has stored undoes nothing: then the answer is
    /// the time after which to list again. With `newest` it counts whatever its age.
    pub(super) async fn take_listing(
        &self,
        source: &SourceId,
        listing: &Listing,
        newest: bool,
    ) -> Result<Option<WallMs>, StoreError> {
        let taken = self.taken(source);
        let mut taken = taken.lock().await;
        let store = self.ports().store();
        let number = listing.number;
        if *taken == Some(Taken { number, generation: store.generation().await? }) {
            return Ok(None);
        }
        let before = self.manifest_or_nothing(source).await?;
        if !self.is_same(listing, before.as_ref()) {
            let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
            // Names are given under the lock, so that two processes never give one name twice.
            let before = self.manifest_or_nothing(source).await?;
            if let Some(before) = &before
                && !newest
                && before.listed > listing.listed
            {
                return Ok(Some(before.listed));
            }
            // What was removed meanwhile gets no manifest that nobody would ever remove.
            if self.is_there(source).await? {
                store.write_manifest(source, &self.manifest(listing, before.as_ref())).await?;
            }
        }
        *taken = Some(Taken { number, generation: store.generation().await? });
        Ok(None)
    }

    /// Would taking in this listing write the manifest that is stored?
    fn is_same(&self, listing: &Listing, before: Option<&Manifest>) -> bool {
        let manifest = self.manifest(listing, before);
        before.is_some_and(|before| {
            before.tools == manifest.tools
                && before.names == manifest.names
                && before.notices == manifest.notices
        })
    }

    /// Is the source still in the store? Asked under the hub's lock.
    async fn is_there(&self, source: &SourceId) -> Result<bool, StoreError> {
        let sources = self.ports().store().sources().await?;
        Ok(sources.iter().flatten().any(|record| record.id == *source))
    }

    /// The manifest of a source. One that does not parse is as good as none; one that cannot be read, or
    /// that a newer hub wrote, is an error: names given before must not be given anew.
    async fn manifest_or_nothing(&self, source: &SourceId) -> Result<Option<Manifest>, StoreError> {
        match self.ports().store().manifest(source).await {
            Err(StoreError::Malformed { place, what }) => {
                tracing::warn!(%place, %what, "a manifest does not parse and is written anew");
                Ok(None)
            }
            other => other,
        }
    }

    fn manifest(&self, listing: &Listing, before: Option<&Manifest>) -> Manifest {
        let secrets = self.ports().secrets();
        let mut notices = listing.notices.clone();
        let mut kept: Vec<(RawToolName, &Contract)> = Vec::new();
        for contract in &listing.tools {
            let Some(raw) = contract.raw_name() else { continue };
            if secrets.carries_secret(&contract.canonical()) {
                notices.push("a tool was dropped: its name or schema contains a value that the hub keeps secret".to_owned());
            } else {
                kept.push((raw, contract));
            }
        }
        let held = before.map(|before| before.names.clone()).unwrap_or_default();
        let names = assign(kept.iter().map(|(raw, _)| raw), &held);
        let by_raw: BTreeMap<&RawToolName, &JsName> =
            names.iter().map(|(name, raw)| (raw, name)).collect();
        let mut tools = Vec::new();
        for (raw, contract) in &kept {
            match by_raw.get(raw) {
                Some(name) => tools.push(ManifestTool {
                    name: (*name).clone(),
                    raw: raw.clone(),
                    digest: contract.digest(),
                    contract: (*contract).clone(),
                }),
                None => notices.push(format!(
                    "the tool `{}` was dropped: its name is too long",
                    one_line(raw.as_str(), 60)
                )),
            }
        }
        tools.sort_by(|a, b| a.raw.cmp(&b.raw));
        Manifest {
            version: MANIFEST_VERSION,
            listed: listing.listed,
            server: listing.server.clone(),
            protocol: listing.protocol.clone(),
            tools,
            names,
            notices,
        }
    }

    /// Every tool that is new or changed since a person reviewed it, in the order of addresses; of one
    /// source, or of all that a person agreed to.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn to_review(&self, source: Option<&SourceId>) -> Result<Vec<ReviewItem>, HubError> {
        let facts = self.facts().await?;
        let mut items = Vec::new();
        for known in facts.visible() {
            if source.is_some_and(|wanted| *wanted != known.record.id) {
                continue;
            }
            for tool in known.tools.values() {
                let pin = known.policy.pin(&tool.raw);
                if pin.is_some_and(|pin| pin.contract == tool.digest) {
                    continue;
                }
                let changes = pin.map(|pin| match facts.reviewed.get(&pin.contract) {
                    Some(old) => changes(old, &tool.contract),
                    None => vec!["what was reviewed before is no longer stored".to_owned()],
                });
                items.push(ReviewItem {
                    source: known.record.id.clone(),
                    namespace: known.record.namespace.clone(),
                    name: tool.name.clone(),
                    raw: tool.raw.clone(),
                    digest: tool.digest,
                    contract: tool.contract.clone(),
                    class: class(&tool.contract),
                    changes,
                });
            }
        }
        items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(items)
    }

    /// Records a review: accepting a proposal pins the contract, an adjusted tool gets a rule as well. A
    /// tool that changed after it was shown is left for the next review.
    ///
    /// # Errors
    /// Nothing of the source being written changed.
    pub async fn review(&self, reviewed: &[Reviewed]) -> Result<usize, HubError> {
        let mut by_source: BTreeMap<SourceId, Vec<&Reviewed>> = BTreeMap::new();
        for one in reviewed {
            by_source.entry(one.item.source.clone()).or_default().push(one);
        }
        let now = self.ports().clock().wall();
        let mut recorded = 0;
        for (source, reviewed) in by_source {
            let facts = self.facts().await?;
            let Some(known) = facts.sources.get(&source) else { continue };
            let still: Vec<&&Reviewed> = reviewed
                .iter()
                .filter(|one| {
                    known
                        .tools
                        .get(&one.item.raw)
                        .is_some_and(|tool| tool.digest == one.item.digest)
                })
                .collect();
            recorded += still.len();
            let contracts: Vec<_> =
                still.iter().map(|one| (one.item.digest, one.item.contract.canonical())).collect();
            self.change_policy(&source, &contracts, |policy| {
                for one in still {
                    let raw = one.item.raw.clone();
                    policy
                        .pins
                        .insert(raw.clone(), Pin { contract: one.item.digest, reviewed: now });
                    if let Some(effect) = one.rule {
                        let scope = Scope { tool: Some(raw), connection: ConnectionScope::Any };
                        policy.rules.retain(|rule| rule.scope != scope);
                        let contract = (effect == Effect::Allow).then_some(one.item.digest);
                        policy.rules.push(Rule { scope, effect, contract });
                    }
                }
            })
            .await?;
        }
        Ok(recorded)
    }

    /// Changes one source's policy under the hub's lock; `contracts` are kept so that a later review can
    /// say what changed.
    pub(super) async fn change_policy(
        &self,
        source: &SourceId,
        contracts: &[(Digest, String)],
        change: impl FnOnce(&mut Policy),
    ) -> Result<(), HubError> {
        let store = self.ports().store();
        let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
        if !self.is_there(source).await? {
            return Err(HubError::NoSource(source.to_string()));
        }
        let mut policy = match store.policy(source).await {
            SourcePolicy::Usable(policy) => policy,
            SourcePolicy::Broken(what) => {
                return Err(StoreError::Malformed { place: "policy".to_owned(), what }.into());
            }
        };
        for (digest, text) in contracts {
            store.put_blob(*digest, text).await?;
        }
        change(&mut policy);
        store.write_policy(source, &policy).await?;
        Ok(())
    }
}

fn difference(
    namespace: &Namespace,
    before: Option<&Manifest>,
    after: Option<&Manifest>,
) -> Refreshed {
    let tools = |manifest: Option<&Manifest>| -> BTreeMap<RawToolName, (JsName, Digest)> {
        let tools = manifest.map(|manifest| manifest.tools.as_slice()).unwrap_or_default();
        tools.iter().map(|tool| (tool.raw.clone(), (tool.name.clone(), tool.digest))).collect()
    };
    let (old, new) = (tools(before), tools(after));
    let mut refreshed = Refreshed { tools: new.len(), ..Refreshed::default() };
    for (raw, (name, digest)) in &new {
        let address = format!("{namespace}.{name}");
        match old.get(raw) {
            None => refreshed.added.push(address),
            Some((_, known)) if known != digest => refreshed.changed.push(address),
            Some(_) => {}
        }
    }
    for (raw, (name, _)) in &old {
        if !new.contains_key(raw) {
            refreshed.gone.push(format!("{namespace}.{name}"));
        }
    }
    refreshed.notices = after.map(|manifest| manifest.notices.clone()).unwrap_or_default();
    refreshed
}
