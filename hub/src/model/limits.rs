//! Every limit of the hub, in one place. A host may lower one in `hub.json` and never raise it.

use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident, $name:literal, $least:expr, $default:expr;)*) => {
        /// The limits of one run, frozen into its record at its start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Limits {
            $($(#[$doc])* #[serde(rename = $name)] pub $field: u64,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Limits { $($field: $default,)* }
            }
        }

        /// Limits a host lowered, as `hub.json` spells them.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct LoweredLimits {
            $(#[serde(rename = $name, default, skip_serializing_if = "Option::is_none")] $field: Option<u64>,)*
        }

        impl LoweredLimits {
            /// The defaults with these lowered.
            ///
            /// # Errors
            /// Names the first limit that would be raised, or is too low to run anything.
            pub fn apply(&self) -> Result<Limits, LimitError> {
                let mut limits = Limits::default();
                $(if let Some(wanted) = self.$field {
                    if wanted > limits.$field || wanted < $least {
                        return Err(LimitError { name: $name, wanted, least: $least, most: limits.$field });
                    }
                    limits.$field = wanted;
                })*
                Ok(limits)
            }
        }
    };
}

/// A limit in `hub.json` that lies outside its range.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`limits.{name}` is {wanted}; it may be {least} to {most}")]
pub struct LimitError {
    /// The key in `hub.json`.
    pub name: &'static str,
    /// What the file says.
    pub wanted: u64,
    /// The lowest it may be.
    pub least: u64,
    /// The default, which is the highest it may be.
    pub most: u64,
}

limits! {
    /// Bytes of code in one `execute`.
    code_bytes, "codeBytes", 64, 64 * 1024;
    /// Milliseconds of guest execution in one attempt; stands still while calls are in flight.
    compute_ms, "computeMs", 50, 10_000;
    /// Milliseconds one attempt may take, calls included.
    wall_ms, "wallMs", 250, 90_000;
    /// Bytes of guest heap.
    memory_bytes, "memoryBytes", 4 << 20, 64 << 20;
    /// Calls per run, all attempts together.
    calls_max, "maxCalls", 1, 500;
    /// Calls in flight at once.
    concurrent_max, "maxConcurrent", 1, 8;
    /// Bytes of one envelope as sent: result, logs and everything else.
    inline_result_bytes, "inlineResultBytes", 8 * 1024, 24 * 1024;
    /// Milliseconds one upstream call may take without progress.
    upstream_timeout_ms, "upstreamTimeoutMs", 100, 30_000;
    /// Milliseconds a question waits for a person, from its first publication.
    approval_ttl_ms, "approvalTtlMs", 60_000, 24 * 60 * 60 * 1000;
    /// Bytes of one call's result.
    call_result_bytes, "callResultBytes", 1024, 8 << 20;
}

/// Longest delay `setTimeout` takes, in milliseconds.
pub const TIMER_DELAY_MS_MAX: u64 = 30_000;
/// Timers one run may have set at a time.
pub const TIMERS_MAX: usize = 10_000;
/// Bytes of console output kept in one attempt; more is counted and dropped.
pub const LOG_BYTES_KEPT: usize = 64 * 1024;
/// Bytes of logs in one envelope.
pub const LOG_BYTES_SENT: usize = 4 * 1024;
/// Bytes of error and notices in one envelope.
pub const NOTICE_BYTES_SENT: usize = 2 * 1024;
/// Bytes of pending questions in one envelope.
pub const PENDING_BYTES_SENT: usize = 6 * 1024;
/// Calls listed one by one in an envelope; the rest is counted per tool.
pub const CALLS_LISTED: usize = 20;
/// Outcomes above this many bytes become blobs.
pub const OUTCOME_BYTES_INLINE: usize = 64 * 1024;
/// Bytes of arguments a person is shown; a cut preview offers no "run" and no "always".
pub const PREVIEW_BYTES_MAX: usize = 4 * 1024;
/// Age of a listing, in milliseconds, above which a write has its source listed again first.
pub const LISTING_AGE_MS_MAX: u64 = 15 * 60 * 1000;
/// Lookups (`hub.search`, `hub.describe`) in one run, all attempts together.
pub const LOOKUPS_MAX: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_lower_a_limit_and_never_raise_it() {
        let parse = |text| serde_json::from_str::<LoweredLimits>(text).unwrap().apply();
        assert_eq!(parse("{}").unwrap(), Limits::default());
        assert_eq!(parse(r#"{"maxCalls":3}"#).unwrap().calls_max, 3);
        insta::assert_snapshot!(parse(r#"{"maxCalls":501}"#).unwrap_err().to_string(), @"`limits.maxCalls` is 501; it may be 1 to 500");
        insta::assert_snapshot!(parse(r#"{"maxCalls":0}"#).unwrap_err().to_string(), @"`limits.maxCalls` is 0; it may be 1 to 500");
        assert!(serde_json::from_str::<LoweredLimits>(r#"{"maxcalls":1}"#).is_err());
    }
}
