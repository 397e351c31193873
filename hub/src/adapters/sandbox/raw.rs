//! What needs the engine's C interface: carrying bytecode from the context that compiles to the guest's,
//! which has no compiler, and copying bytes out of a typed array.
#![expect(unsafe_code, reason = "the engine offers neither in safe form")]

use rquickjs::{Ctx, Error, Result, TypedArray, Value, qjs};
use std::ffi::CString;

/// Compiles a script to bytecode. The exception, if any, is left in `ctx`.
fn compile(ctx: &Ctx<'_>, source: &str, name: &str) -> Result<Vec<u8>> {
    let (source_c, name_c) = (CString::new(source)?, CString::new(name)?);
    let flags =
        qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_STRICT | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let flags = i32::try_from(flags).map_err(|_| Error::Unknown)?;
    // SAFETY: both strings are NUL-terminated and outlive the call; `source.len()` is the length without
    // the NUL, as the engine wants it. The value is freed once, and the buffer is copied before it is.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let function =
            qjs::JS_Eval(raw, source_c.as_ptr(), source.len() as _, name_c.as_ptr(), flags);
        if qjs::JS_IsException(function) {
            return Err(Error::Exception);
        }
        let mut size = 0;
        let write = i32::try_from(qjs::JS_WRITE_OBJ_BYTECODE).map_err(|_| Error::Unknown)?;
        let buffer = qjs::JS_WriteObject(raw, &raw mut size, function, write);
        qjs::JS_FreeValue(raw, function);
        if buffer.is_null() {
            return Err(Error::Exception);
        }
        let code = std::slice::from_raw_parts(buffer, usize::try_from(size).unwrap_or(0)).to_vec();
        qjs::js_free(raw, buffer.cast());
        Ok(code)
    }
}

/// Runs bytecode that [`compile`] made in this very process. Bytes from anywhere else would be unsafe:
/// the engine trusts them.
pub(super) fn run<'js>(ctx: &Ctx<'js>, code: &Bytecode) -> Result<Value<'js>> {
    let read = i32::try_from(qjs::JS_READ_OBJ_BYTECODE).map_err(|_| Error::Unknown)?;
    // SAFETY: `Bytecode` only holds what `compile` wrote. `JS_EvalFunction` consumes the function, and the
    // result is owned by the `Value` from then on.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let function = qjs::JS_ReadObject(raw, code.0.as_ptr(), code.0.len() as _, read);
        if qjs::JS_IsException(function) {
            return Err(Error::Exception);
        }
        let value = qjs::JS_EvalFunction(raw, function);
        if qjs::JS_IsException(value) {
            return Err(Error::Exception);
        }
        Ok(Value::from_raw(ctx.clone(), value))
    }
}

/// Bytecode made in this process.
pub(super) struct Bytecode(Vec<u8>);

impl Bytecode {
    pub(super) fn compile(ctx: &Ctx<'_>, source: &str, name: &str) -> Result<Bytecode> {
        compile(ctx, source, name).map(Bytecode)
    }
}

/// A copy of the bytes of a typed array; nothing once its buffer is detached.
pub(super) fn bytes(array: &TypedArray<'_, u8>) -> Vec<u8> {
    // SAFETY: no guest code runs while the slice lives, so nothing can detach or resize the buffer.
    unsafe { array.as_bytes() }.map(<[u8]>::to_vec).unwrap_or_default()
}
