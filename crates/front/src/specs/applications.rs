//! Commands for applications.

use super::{Id, Keys, Kind, Shape, Spec};

pub(super) const APPLICATIONS: &[Spec] = specs! {
    Fcall "fcall" -3 Application (0 0 0 "RW access update") "noscript stale skip_monitor no_mandatory_keys movablekeys" "@slow @scripting"
        "scripting" "7.0.0" "application 1 key [arg [arg ...]]"
        "Have an application execute this on an object",
    FcallRo "fcall_ro" -3 Application (0 0 0 "RO access") "readonly noscript stale skip_monitor no_mandatory_keys movablekeys" "@slow @scripting"
        "scripting" "7.0.0" "application 1 key [arg [arg ...]]"
        "Have an application answer from an object, which stays as it is",
};
