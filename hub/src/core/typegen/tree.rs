//! The small type tree between schemas and text.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a type that is not named is handled as a whole"
)]

use serde_json::Value;

/// A TypeScript type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    Unknown,
    Never,
    Null,
    Boolean,
    Number,
    /// A number that may need more than 53 bits.
    BigNumber,
    String,
    Literal(Value),
    Array(Box<Type>),
    Tuple {
        items: Vec<Type>,
        /// How many of them must be there.
        required: usize,
        rest: Option<Box<Type>>,
    },
    Object(Object),
    /// `Record<string, T>`.
    Record(Box<Type>),
    Union(Vec<Type>),
    Intersection(Vec<Type>),
    /// A named interface of the tool's namespace.
    Named(String),
}

/// An object type: required fields first, each group in the order of the schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Object {
    pub(super) fields: Vec<Field>,
    /// Type of members that have no field.
    pub(super) extra: Option<Box<Type>>,
}

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) kind: Type,
    /// What the schema says about it, uncut.
    pub(super) doc: String,
}

impl Type {
    /// The union of several types, flat and without repeats.
    pub(super) fn union(types: impl IntoIterator<Item = Type>) -> Type {
        let mut flat: Vec<Type> = Vec::new();
        for one in types {
            match one {
                Type::Union(many) => many.into_iter().for_each(|inner| push_new(&mut flat, inner)),
                Type::Never => {}
                other => push_new(&mut flat, other),
            }
        }
        if flat.contains(&Type::Unknown) {
            return Type::Unknown;
        }
        match flat.len() {
            0 => Type::Never,
            1 => flat.swap_remove(0),
            _ => Type::Union(flat),
        }
    }

    /// The intersection of several types, without those that add nothing.
    pub(super) fn intersection(types: impl IntoIterator<Item = Type>) -> Type {
        let mut flat: Vec<Type> = Vec::new();
        for one in types {
            match one {
                Type::Unknown => {}
                other => push_new(&mut flat, other),
            }
        }
        match flat.len() {
            0 => Type::Unknown,
            1 => flat.swap_remove(0),
            _ => Type::Intersection(flat),
        }
    }
}

fn push_new(types: &mut Vec<Type>, one: Type) {
    if !types.contains(&one) {
        types.push(one);
    }
}
