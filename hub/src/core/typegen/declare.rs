//! Fills a token budget with declarations: every tool on one line first, then with its fields, then with
//! their comments, then the named interfaces, as far as they fit.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a type that is not named is handled as a whole"
)]

use super::print::{Layout, Printer, comment};
use super::schema::{Definition, ToolTypes};
use super::tree::{Object, Type};
use crate::model::contract::Contract;
use crate::model::tokens::estimate;
use crate::model::visible::one_line;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Characters of a tool's comment.
const TOOL_DOC_CHARS: usize = 600;
/// Characters of a tool's comment where only one line is shown.
const TOOL_LINE_CHARS: usize = 160;
/// Characters of an input on one line.
const LINE_CHARS: usize = 320;
/// Named interfaces that are looked at for one namespace.
const INTERFACES_MAX: usize = 2_000;
/// Tools that in a row do not fit before the others are given up.
const MISSES_MAX: usize = 40;
/// Comments of one piece among which it is searched how many fit.
const COMMENTS_TRIED: usize = 512;
/// Names listed as not shown.
const LEFT_OUT_NAMED: usize = 6;

/// What every call takes beside its input.
const CALL_OPTIONS: &str = "interface CallOptions {\n\t/** One of the namespace's connections; the default one if left out. */\n\tconnection?: string;\n}\n";

/// The tools of one namespace, as far as they may be shown.
#[derive(Debug, Clone)]
pub struct NamespaceTools<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// A line about its connections, empty if it has none.
    pub connections: String,
    /// JavaScript name, contract, and a remark such as `[asks]`.
    pub tools: Vec<(&'a str, &'a Contract, String)>,
}

/// One thing to describe.
#[derive(Debug, Clone)]
pub enum Target<'a> {
    /// All tools of a namespace, budget permitting.
    Namespace(&'a NamespaceTools<'a>),
    /// One tool, by its place in `tools`.
    Tool(&'a NamespaceTools<'a>, usize),
    /// A named interface of an earlier declaration.
    Interface(&'a NamespaceTools<'a>, String),
}

/// Declarations, and what there was no room for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// Parses as TypeScript.
    pub text: String,
    /// Was there more to show?
    pub cut: bool,
    /// Interfaces asked for that no tool of the namespace refers to.
    pub unknown: Vec<String>,
}

/// How much of a piece is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Hidden,
    Line,
    Fields,
    Docs,
}

struct Piece<'a> {
    block: usize,
    name: String,
    what: What<'a>,
    level: Level,
    shown: Shown,
    text: String,
    /// Is `text` all there is to say?
    whole: bool,
    /// Does it at least have every field?
    all_fields: bool,
}

/// How much of a piece is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    fields: usize,
    comments: usize,
}

impl Shown {
    const ALL: Shown = Shown { fields: usize::MAX, comments: usize::MAX };
}

/// The largest number up to `most` for which `fits` holds, if it holds for all below it.
fn most_that(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut least, mut most) = (0, most);
    while least < most {
        let middle = (least + most).div_ceil(2);
        if fits(middle) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    least
}

enum What<'a> {
    Tool { types: ToolTypes<'a>, contract: &'a Contract, remark: String },
    Interface { tool: &'a str, contract: &'a Contract, definition: Definition<'a> },
}

struct Block<'a> {
    namespace: &'a str,
    connections: &'a str,
}

struct Writer<'a> {
    blocks: Vec<Block<'a>>,
    pieces: Vec<Piece<'a>>,
    used: usize,
    tokens_max: usize,
}

/// Declares `targets` in at most `tokens_max` o200k tokens.
#[must_use]
pub fn declare<'a>(targets: &[Target<'a>], tokens_max: usize) -> Declared {
    let mut writer = Writer { blocks: Vec::new(), pieces: Vec::new(), used: 0, tokens_max };
    let mut unknown = Vec::new();
    for target in targets {
        match target {
            Target::Namespace(tools) => {
                (0..tools.tools.len()).for_each(|at| writer.tool(tools, at));
            }
            Target::Tool(tools, at) => writer.tool(tools, *at),
            Target::Interface(tools, name) => {
                if !writer.interface(tools, name) {
                    unknown.push(format!("{}.{name}", tools.namespace));
                }
            }
        }
    }
    writer.fill();
    let cut = writer.pieces.iter().any(|piece| piece.level == Level::Hidden || !piece.whole);
    Declared { text: writer.finish(), cut, unknown }
}

impl<'a> Writer<'a> {
    fn block(&mut self, tools: &'a NamespaceTools<'a>) -> usize {
        if let Some(at) = self.blocks.iter().position(|block| block.namespace == tools.namespace) {
            return at;
        }
        self.blocks.push(Block { namespace: tools.namespace, connections: &tools.connections });
        self.blocks.len() - 1
    }

    fn tool(&mut self, tools: &'a NamespaceTools<'a>, at: usize) {
        let Some((name, contract, remark)) = tools.tools.get(at) else { return };
        let block = self.block(tools);
        let what =
            What::Tool { types: ToolTypes::of(name, contract), contract, remark: remark.clone() };
        self.push(block, (*name).to_owned(), what);
    }

    fn interface(&mut self, tools: &'a NamespaceTools<'a>, name: &str) -> bool {
        for (tool, contract, _) in &tools.tools {
            if !name.starts_with(&super::schema::pascal(tool)) {
                continue;
            }
            if let Some(definition) =
                named_of(&ToolTypes::of(tool, contract), name).get(name).copied()
            {
                let block = self.block(tools);
                self.push(block, name.to_owned(), What::Interface { tool, contract, definition });
                return true;
            }
        }
        false
    }

    fn push(&mut self, block: usize, name: String, what: What<'a>) {
        let is_tool = matches!(what, What::Tool { .. });
        let known = self.pieces.iter().any(|piece| {
            piece.block == block
                && piece.name == name
                && matches!(piece.what, What::Tool { .. }) == is_tool
        });
        if !known {
            self.pieces.push(Piece {
                block,
                name,
                what,
                level: Level::Hidden,
                shown: Shown::ALL,
                text: String::new(),
                whole: false,
                all_fields: false,
            });
        }
    }

    fn fill(&mut self) {
        let frames: usize = self.blocks.iter().map(|block| estimate(&block.frame())).sum();
        self.used = frames + estimate(CALL_OPTIONS) + LEFT_OUT_TOKENS;
        self.raise_all(Level::Line);
        self.raise_all(Level::Fields);
        self.raise_all(Level::Docs);
        self.add_interfaces();
    }

    /// Raises every piece to `level`, in order, as far as the budget goes.
    fn raise_all(&mut self, level: Level) {
        let mut misses = 0;
        for at in 0..self.pieces.len() {
            if misses > MISSES_MAX {
                break;
            }
            misses = if self.raise(at, level) { 0 } else { misses + 1 };
        }
    }

    /// Shows one piece at `level`, whole if it fits, else with as many fields as fit.
    fn raise(&mut self, at: usize, level: Level) -> bool {
        let Some(piece) = self.pieces.get(at) else { return false };
        let Some(namespace) = self.blocks.get(piece.block).map(|block| block.namespace) else {
            return false;
        };
        // Only what is shown on one line already is worth raising; interfaces have no such line.
        if level > Level::Line
            && piece.level == Level::Hidden
            && matches!(piece.what, What::Tool { .. })
        {
            return false;
        }
        let before = estimate(&piece.text);
        let room = (self.tokens_max + before).saturating_sub(self.used);
        let none = BTreeSet::new();
        let fits = |shown: Shown| estimate(&piece.render(namespace, level, shown, &none).0) <= room;
        let (_, fields) = piece.render(namespace, level, Shown::ALL, &none);
        let shown = if fits(Shown::ALL) {
            Shown::ALL
        } else if level == Level::Line {
            return false;
        } else if level == Level::Docs && piece.level == Level::Fields {
            // Comments are no gain if they cost fields; as many as fit, then, if all fields are there.
            let some = |comments| Shown { comments, ..Shown::ALL };
            match most_that(COMMENTS_TRIED, |comments| fits(some(comments))) {
                comments if comments > 0 && piece.all_fields => some(comments),
                _ => return false,
            }
        } else {
            let some = |fields| Shown { fields, ..Shown::ALL };
            match most_that(fields, |fields| fits(some(fields))) {
                0 => return false,
                fields => some(fields),
            }
        };
        let (text, _) = piece.render(namespace, level, shown, &none);
        let whole = shown == Shown::ALL;
        let line_was_enough = level == Level::Line && fields == 0;
        let after = estimate(&text);
        if let Some(piece) = self.pieces.get_mut(at) {
            piece.level = level;
            piece.shown = shown;
            piece.whole = whole && (level == Level::Docs || line_was_enough);
            piece.all_fields = shown.fields == usize::MAX;
            piece.text = text;
        }
        self.used = self.used - before + after;
        true
    }

    /// Adds the interfaces that shown pieces refer to, nearest first.
    fn add_interfaces(&mut self) {
        let mut queue: VecDeque<usize> = (0..self.pieces.len()).collect();
        let mut misses = 0;
        while let Some(at) = queue.pop_front() {
            if self.pieces.len() > INTERFACES_MAX || misses > MISSES_MAX {
                break;
            }
            let Some(piece) = self.pieces.get(at) else { continue };
            if piece.level == Level::Hidden {
                let is_interface = matches!(piece.what, What::Interface { .. });
                if !is_interface || !self.raise_interface(at) {
                    misses += 1;
                    continue;
                }
                misses = 0;
            }
            let Some(piece) = self.pieces.get(at) else { continue };
            let (block, found) = (piece.block, piece.refers_to());
            for (name, what) in found {
                let before = self.pieces.len();
                self.push(block, name, what);
                queue.extend(before..self.pieces.len());
            }
        }
    }

    fn raise_interface(&mut self, at: usize) -> bool {
        let shown = self.raise(at, Level::Fields);
        if shown {
            self.raise(at, Level::Docs);
        }
        shown
    }

    /// What is named and not declared: by a type alias as far as the budget goes, else the name becomes
    /// `unknown`. The aliases, by block and name.
    fn settle_names(&mut self) -> BTreeSet<(usize, String)> {
        let is_shown = |block: usize, name: &str| {
            self.pieces.iter().any(|piece| {
                piece.block == block
                    && piece.name == name
                    && piece.level > Level::Hidden
                    && matches!(piece.what, What::Interface { .. })
            })
        };
        let shown = self.pieces.iter().filter(|piece| piece.level > Level::Hidden);
        let missing: BTreeSet<(usize, String)> = shown
            .flat_map(|piece| piece.refers_to().into_iter().map(|(name, _)| (piece.block, name)))
            .filter(|(block, name)| !is_shown(*block, name))
            .collect();
        let room = self.tokens_max.saturating_sub(self.used + estimate(NO_ROOM));
        let (mut aliases, mut opaque, mut taken) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (block, name) in missing {
            taken += estimate(&alias(&name));
            if taken > room {
                opaque.insert((block, name));
            } else {
                aliases.insert((block, name));
            }
        }
        for piece in self.pieces.iter_mut().filter(|piece| piece.level > Level::Hidden) {
            let Some(block) = self.blocks.get(piece.block) else { continue };
            let hidden: BTreeSet<String> = opaque
                .iter()
                .filter(|(at, name)| *at == piece.block && names(&piece.text, name))
                .map(|(_, name)| name.clone())
                .collect();
            if !hidden.is_empty() {
                piece.text = piece.render(block.namespace, piece.level, piece.shown, &hidden).0;
            }
        }
        aliases
    }

    fn finish(mut self) -> String {
        let aliases = self.settle_names();
        let mut text = String::new();
        if self.pieces.iter().any(|piece| matches!(piece.what, What::Tool { .. })) {
            text.push_str(CALL_OPTIONS);
        }
        for (at, block) in self.blocks.iter().enumerate() {
            let of = |tool: bool| {
                self.pieces.iter().filter(move |piece| {
                    piece.block == at
                        && piece.level > Level::Hidden
                        && matches!(piece.what, What::Tool { .. }) == tool
                })
            };
            if of(true).next().is_some() {
                text.push_str(&block.opening());
                of(true).for_each(|piece| text.push_str(&piece.text));
                text.push_str("};\n");
            }
            let named: Vec<String> =
                aliases.iter().filter(|(of, _)| *of == at).map(|(_, name)| alias(name)).collect();
            if of(false).next().is_some() || !named.is_empty() {
                text.push_str(&format!("declare namespace {} {{\n", block.namespace));
                of(false).for_each(|piece| text.push_str(&piece.text));
                if !named.is_empty() {
                    text.push_str(NO_ROOM);
                    named.iter().for_each(|alias| text.push_str(alias));
                }
                text.push_str("}\n");
            }
        }
        text.push_str(&self.left_out(&aliases));
        text
    }

    fn left_out(&self, aliases: &BTreeSet<(usize, String)>) -> String {
        let hidden: Vec<String> = self
            .pieces
            .iter()
            .filter(|piece| piece.level == Level::Hidden)
            .filter(|piece| {
                matches!(piece.what, What::Tool { .. })
                    || !aliases.contains(&(piece.block, piece.name.clone()))
            })
            .filter_map(|piece| {
                let namespace = self.blocks.get(piece.block)?.namespace;
                Some(format!("{namespace}.{}", piece.name))
            })
            .collect();
        if hidden.is_empty() {
            return String::new();
        }
        let mut names: Vec<&str> = Vec::new();
        for name in hidden.iter().take(LEFT_OUT_NAMED) {
            if estimate(&names.join(", ")) + estimate(name) > LEFT_OUT_TOKENS / 2 {
                break;
            }
            names.push(name);
        }
        let more = hidden.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("// No room for {}{more}: describe them on their own.\n", names.join(", "))
    }
}

/// Before the aliases of what is named and not declared.
const NO_ROOM: &str = "\t// No room for these: describe them on their own.\n";

fn alias(name: &str) -> String {
    format!("\ttype {name} = unknown;\n")
}

/// Tokens kept free for the line on what is left out.
const LEFT_OUT_TOKENS: usize = 64;

impl Block<'_> {
    fn opening(&self) -> String {
        let about = if self.connections.is_empty() {
            String::new()
        } else {
            format!("/** {} */\n", comment(self.connections))
        };
        format!("{about}declare const {}: {{\n", self.namespace)
    }

    fn frame(&self) -> String {
        format!("{}}};\ndeclare namespace {} {{\n}}\n", self.opening(), self.namespace)
    }
}

impl<'a> Piece<'a> {
    /// The piece as text, and how many fields it has.
    fn render(
        &self,
        namespace: &str,
        level: Level,
        shown: Shown,
        opaque: &BTreeSet<String>,
    ) -> (String, usize) {
        match &self.what {
            What::Tool { types, contract, remark } => {
                let (layout, chars, input) = match level {
                    Level::Hidden | Level::Line => (
                        Layout::OneLine { chars_max: LINE_CHARS },
                        TOOL_LINE_CHARS,
                        types.signature_input(),
                    ),
                    Level::Fields => {
                        (Layout::Lines { comments: 0 }, TOOL_LINE_CHARS, types.input().kind)
                    }
                    Level::Docs => (
                        Layout::Lines { comments: shown.comments },
                        TOOL_DOC_CHARS,
                        types.input().kind,
                    ),
                };
                let (input, fields, left) = limited(input, shown.fields);
                let mut printer =
                    Printer::new(layout).qualified(Some(namespace), 1).without(opaque);
                let mut text = printer.input(&input);
                if left > 0 {
                    text = mark_left_out(&text, left, 1);
                }
                let options = "options?: CallOptions";
                let parameters =
                    if text.is_empty() { options.to_owned() } else { format!("{text}, {options}") };
                let output = Printer::new(Layout::OneLine { chars_max: LINE_CHARS })
                    .qualified(Some(namespace), 1)
                    .without(opaque)
                    .show(&types.output());
                let doc = tool_doc(contract, remark, chars);
                (format!("{doc}\t{}({parameters}): Promise<{output}>;\n", self.name), fields)
            }
            What::Interface { tool, contract, definition } => {
                let types = ToolTypes::of(tool, contract);
                let converted = types.definition(&self.name, *definition);
                let (kind, fields, left) = limited(converted.kind, shown.fields);
                let comments = if level == Level::Docs { shown.comments } else { 0 };
                let layout = Layout::Lines { comments };
                let mut body = Printer::new(layout).qualified(None, 1).without(opaque).show(&kind);
                if left > 0 {
                    body = mark_left_out(&body, left, 1);
                }
                (format!("\tinterface {} {body}\n", self.name), fields)
            }
        }
    }

    /// The interfaces that the shown text names.
    fn refers_to(&self) -> Vec<(String, What<'a>)> {
        let (contract, named) = match &self.what {
            What::Tool { types, contract, .. } => {
                let mut named = types.input().named;
                named.extend(types.line_named());
                named.extend(types.convert_output().named);
                (*contract, named)
            }
            What::Interface { tool, contract, definition } => {
                let types = ToolTypes::of(tool, contract);
                (*contract, types.definition(&self.name, *definition).named)
            }
        };
        named
            .into_iter()
            .filter(|(name, _)| names(&self.text, name))
            .filter_map(|(name, definition)| {
                Some((name, What::Interface { tool: self.tool_name()?, contract, definition }))
            })
            .collect()
    }

    fn tool_name(&self) -> Option<&'a str> {
        match &self.what {
            What::Tool { types, .. } => Some(types.tool),
            What::Interface { tool, .. } => Some(tool),
        }
    }
}

/// Does `text` hold `name` as a word of its own?
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let after = text.get(at + name.len()..).and_then(|rest| rest.chars().next());
        let before = text.get(..at).and_then(|rest| rest.chars().next_back());
        let part = |c: Option<char>| c.is_some_and(unicode_ident::is_xid_continue);
        !part(after) && !part(before)
    })
}

/// An object with at most `fields_max` fields; how many it has, and how many were left out.
fn limited(kind: Type, fields_max: usize) -> (Type, usize, usize) {
    match kind {
        Type::Object(Object { mut fields, extra }) => {
            let all = fields.len();
            fields.truncate(fields_max);
            let left = all - fields.len();
            (Type::Object(Object { fields, extra }), all, left)
        }
        other => (other, 0, 0),
    }
}

/// Says inside the last brace how many fields are not shown.
fn mark_left_out(text: &str, left: usize, indent: usize) -> String {
    let tabs = "\t".repeat(indent);
    match text.rsplit_once('}') {
        Some((before, after)) => {
            let before = before.trim_end_matches('\t');
            format!("{before}{tabs}\t// {left} more fields\n{tabs}}}{after}")
        }
        None => text.to_owned(),
    }
}

fn tool_doc(contract: &Contract, remark: &str, chars_max: usize) -> String {
    let text = one_line(contract.description(), chars_max);
    let text =
        if text.is_empty() { one_line(contract.title().unwrap_or(""), chars_max) } else { text };
    let parts: Vec<String> =
        [text, remark.to_owned()].into_iter().filter(|part| !part.is_empty()).collect();
    let doc = comment(&parts.join(" "));
    if doc.is_empty() { String::new() } else { format!("\t/** {doc} */\n") }
}

/// Every named interface a tool refers to, directly or through others, until `wanted` is among them.
fn named_of<'a>(types: &ToolTypes<'a>, wanted: &str) -> BTreeMap<String, Definition<'a>> {
    let mut known = types.input().named;
    // On one line deeper objects are names that the full text writes out.
    known.extend(types.line_named());
    known.extend(types.convert_output().named);
    let mut queue: Vec<String> = known.keys().cloned().collect();
    while let Some(name) = queue.pop() {
        if known.contains_key(wanted) || known.len() > INTERFACES_MAX {
            break;
        }
        let Some(definition) = known.get(&name).copied() else { continue };
        for (inner, found) in types.definition(&name, definition).named {
            if let std::collections::btree_map::Entry::Vacant(place) = known.entry(inner.clone()) {
                place.insert(found);
                queue.push(inner);
            }
        }
    }
    known
}
