//! What needs the engine's C interface: carrying bytecode from the context that compiles to the guest's,
//! which has no compiler, watching the heap, and copying bytes out of a typed array.
#![expect(unsafe_code, reason = "the engine offers none of it in safe form")]

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

/// The heap of a runtime, for that runtime's own interrupt handler.
pub(super) struct Heap {
    runtime: *mut qjs::JSRuntime,
    limit_bytes: usize,
}

impl Heap {
    /// The heap behind `ctx`.
    pub(super) fn of(ctx: &Ctx<'_>, limit_bytes: usize) -> Heap {
        // SAFETY: a context always has a runtime.
        let runtime = unsafe { qjs::JS_GetRuntime(ctx.as_raw().as_ptr()) };
        Heap { runtime, limit_bytes }
    }

    /// Is less than a quarter of it left?
    pub(super) fn is_low(&self) -> bool {
        !self.has(self.limit_bytes / 4)
    }

    /// Has garbage collected at the latest when an eighth is left. The engine by itself waits for half as
    /// much again as it kept the last time, which may lie over the limit: then garbage would fill the heap.
    pub(super) fn collect_in_time(&self) {
        let reserve = self.limit_bytes / 8;
        let latest = self.limit_bytes - reserve;
        // With less than that in use, so that a heap that is full of live things is not searched for ever.
        if self.has(reserve) {
            // SAFETY: as in `has`; the threshold is a number that the next allocation looks at.
            unsafe {
                if u128::from(qjs::JS_GetGCThreshold(self.runtime)) > latest as u128 {
                    qjs::JS_SetGCThreshold(self.runtime, latest as _);
                }
            }
        }
    }

    fn has(&self, bytes: usize) -> bool {
        // SAFETY: the runtime owns the handler that asks, so it is alive. Taking memory from it and giving
        // it back runs no code and collects nothing.
        unsafe {
            let taken = qjs::js_malloc_rt(self.runtime, bytes as _);
            qjs::js_free_rt(self.runtime, taken);
            !taken.is_null()
        }
    }
}

/// A copy of the bytes of a typed array; nothing once its buffer is detached.
pub(super) fn bytes(array: &TypedArray<'_, u8>) -> Vec<u8> {
    // SAFETY: no guest code runs while the slice lives, so nothing can detach or resize the buffer.
    unsafe { array.as_bytes() }.map(<[u8]>::to_vec).unwrap_or_default()
}
