//! What the process tells of itself, on standard error, and how much of it, which can be changed while it runs.
//!
//! There is one log a process, so there is one filter. A process that has a subscriber of its own, such as a test, keeps
//! it, and then there is nothing here to be changed.

use std::sync::{OnceLock, PoisonError, RwLock};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::config::{Log, LogFormat};

static FILTER: OnceLock<Filter> = OnceLock::new();

struct Filter {
    handle: reload::Handle<EnvFilter, Registry>,
    /// As it was set.
    directives: RwLock<String>,
}

/// The words of Redis for how much is logged, each with ours; the first says most.
const REDIS_LEVELS: [(&str, &str); 4] =
    [("debug", "trace"), ("verbose", "debug"), ("notice", "info"), ("warning", "warn")];

/// Begins to log; every process does so once.
pub(crate) fn begin(log: &Log) -> Result<(), String> {
    let (filter, handle) = reload::Layer::new(parse(&log.level)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match log.format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // Nobody else can have begun, so it is not set yet.
        let _ = FILTER.set(Filter { handle, directives: RwLock::new(log.level.clone()) });
    }
    Ok(())
}

/// A level, or directives as in `info,quorate_server=debug`.
pub(crate) fn set(directives: &str) -> Result<(), String> {
    let parsed = parse(directives)?;
    let filter = FILTER.get().ok_or("the log of this process is not the node's")?;
    filter.handle.reload(parsed).map_err(|error| error.to_string())?;
    *filter.directives.write().unwrap_or_else(PoisonError::into_inner) = directives.to_owned();
    tracing::warn!("the log level is {directives} from now on");
    Ok(())
}

/// What was set last.
pub(crate) fn directives() -> String {
    let directives =
        FILTER.get().map(|filter| filter.directives.read().unwrap_or_else(PoisonError::into_inner).clone());
    directives.unwrap_or_else(|| "info".to_owned())
}

/// The nearest of Redis's four levels.
pub(crate) fn redis_level() -> &'static str {
    let most = EnvFilter::try_new(directives()).ok().and_then(|filter| filter.max_level_hint());
    let place = match most.unwrap_or(LevelFilter::INFO) {
        LevelFilter::TRACE => 0,
        LevelFilter::DEBUG => 1,
        LevelFilter::INFO => 2,
        _ => 3,
    };
    REDIS_LEVELS[place].0
}

/// Our level for one of Redis's, or why there is none, as Redis words it.
pub(crate) fn level_of_redis(word: &[u8]) -> Result<&'static str, String> {
    let found = REDIS_LEVELS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word));
    let names = REDIS_LEVELS.map(|(name, _)| name).join(", ");
    found.map(|(_, level)| *level).ok_or_else(|| format!("argument(s) must be one of the following: {names}"))
}

/// Only what is understood as a whole: a level that is misspelt would count as the name of a module.
pub(crate) fn parse(directives: &str) -> Result<EnvFilter, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for directive in directives.split(',') {
        let level = directive.rsplit('=').next().unwrap_or_default();
        if !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            return Err(format!("{level:?} is no level; use one of {}", LEVELS.join(", ")));
        }
    }
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_told_from_mistakes() {
        for good in ["info", "INFO", "off", "info,quorate_server=debug", "warn,quorate_server::links=trace"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["", "inf", "quorate_server", "info,quorate_server=dbg", "info,"] {
            assert!(parse(bad).expect_err(bad).contains("is no level"), "{bad}");
        }
        assert_eq!(level_of_redis(b"Verbose"), Ok("debug"));
        assert!(level_of_redis(b"info").expect_err("ours").ends_with("debug, verbose, notice, warning"));
    }
}
