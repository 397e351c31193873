//! JSON text ↔ JavaScript values, integers whole.

use rquickjs::object::Property;
use rquickjs::{Array, BigInt, Ctx, IntoJs as _, Object, Result, Value};
use serde_json::Value as Json;

/// Largest integer a JavaScript number holds exactly.
const SAFE_INTEGER: u64 = 9_007_199_254_740_991;

/// Parses JSON text into a value; integers that a number would round become `BigInt`.
pub(super) fn parse<'js>(ctx: &Ctx<'js>, text: &str) -> Result<Value<'js>> {
    if !has_long_number(text) {
        return ctx.json_parse(text);
    }
    match serde_json::from_str::<Json>(text) {
        Ok(json) => build(ctx, &json),
        Err(_) => ctx.json_parse(text),
    }
}

/// Is there a run of sixteen digits anywhere?
fn has_long_number(text: &str) -> bool {
    let mut run = 0;
    for byte in text.bytes() {
        run = if byte.is_ascii_digit() { run + 1 } else { 0 };
        if run >= 16 {
            return true;
        }
    }
    false
}

fn build<'js>(ctx: &Ctx<'js>, json: &Json) -> Result<Value<'js>> {
    match json {
        Json::Null => Ok(Value::new_null(ctx.clone())),
        Json::Bool(flag) => Ok(Value::new_bool(ctx.clone(), *flag)),
        Json::String(text) => text.as_str().into_js(ctx),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(small), _, _) if small.unsigned_abs() > SAFE_INTEGER => {
                BigInt::from_i64(ctx.clone(), small)?.into_js(ctx)
            }
            (None, Some(large), _) => BigInt::from_u64(ctx.clone(), large)?.into_js(ctx),
            (_, _, float) => Ok(Value::new_number(ctx.clone(), float.unwrap_or(f64::NAN))),
        },
        Json::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (at, item) in (0u32..).zip(items) {
                // Defined, not set: no setter the guest put on a prototype is met.
                let property =
                    Property::from(build(ctx, item)?).writable().enumerable().configurable();
                array.as_object().prop(at, property)?;
            }
            Ok(array.into_value())
        }
        Json::Object(members) => {
            let object = Object::new(ctx.clone())?;
            for (key, member) in members {
                let property =
                    Property::from(build(ctx, member)?).writable().enumerable().configurable();
                // Defined, not set: `__proto__` is a key like any other.
                object.prop(key.as_str(), property)?;
            }
            Ok(object.into_value())
        }
    }
}

/// Replaces marked BigInts in JSON text by their digits.
///
/// # Errors
/// One does not fit 64 bits.
pub(super) fn unmark(text: &str, mark: &str) -> std::result::Result<String, String> {
    let quoted = format!("\"{mark}");
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(quoted.as_str()) {
        out.push_str(before);
        let (digits, after) = after.split_once('"').unwrap_or((after, ""));
        if digits.parse::<i64>().is_err() && digits.parse::<u64>().is_err() {
            return Err("an integer does not fit 64 bits; pass it as a string".to_owned());
        }
        out.push_str(digits);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Is this the engine's error for a full heap? With no room left for an error it throws `null`, which
/// code may throw as well: then it counts that memory was `low`.
pub(super) fn is_out_of_memory(value: &Value<'_>, low: bool) -> bool {
    if value.is_null() {
        return low;
    }
    if value.type_of() == rquickjs::Type::Uninitialized {
        return true;
    }
    let error = value.as_object().filter(|object| object.is_error());
    let says = |key, text: &str| {
        error.is_some_and(|it| it.get::<_, String>(key).is_ok_and(|it| it == text))
    };
    says("name", "InternalError") && says("message", "out of memory")
}

/// Bytes of stack that guest code may use, by the thread it runs on.
pub(super) const STACK_BYTES_WORKER: usize = 4 << 20;
/// On a thread of which nothing is known.
pub(super) const STACK_BYTES_INLINE: usize = 512 << 10;
