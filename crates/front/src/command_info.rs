//! COMMAND and the HELP subcommands: the table of commands, told to clients.

use quorate_resp::{Arguments, ReplyWriter};

use crate::object_command::Call;
use crate::specs::{self, Id, Spec, find_by_full_name};

/// Carries out COMMAND or one of its subcommands.
pub(crate) fn write(writer: &mut ReplyWriter<'_>, call: &Call<'_>) {
    let names = call.words.from(2);
    match call.spec.id {
        Id::CommandCount => writer.integer(specs::all().count() as i64),
        Id::CommandDocs => write_docs_of(writer, names),
        _ if names.is_empty() => {
            writer.array(specs::all().count());
            specs::all().for_each(|spec| write_info(writer, spec));
        }
        _ => {
            writer.array(names.len());
            for name in names.iter() {
                match find_by_full_name(name) {
                    Some(spec) => write_info(writer, spec),
                    None => writer.null(),
                }
            }
        }
    }
}

/// The ten elements that describe a command to client libraries and proxies.
fn write_info(writer: &mut ReplyWriter<'_>, spec: &Spec) {
    writer.array(10);
    writer.bulk(spec.name.as_bytes());
    writer.integer(i64::from(spec.arity));
    write_word_set(writer, spec.flags);
    writer.integer(i64::from(spec.keys.first));
    writer.integer(i64::from(spec.keys.last));
    writer.integer(i64::from(spec.keys.step));
    write_word_set(writer, spec.categories);
    write_tips(writer, tips(spec.id));
    write_key_specifications(writer, spec);
    // Redis gives the subcommands as an array, but nothing as an empty set.
    match spec.subcommands {
        [] => writer.set(0),
        subcommands => {
            writer.array(subcommands.len());
            subcommands.iter().for_each(|subcommand| write_info(writer, subcommand));
        }
    }
}

fn write_tips(writer: &mut ReplyWriter<'_>, tips: &[&str]) {
    writer.set(tips.len());
    tips.iter().for_each(|tip| writer.bulk(tip.as_bytes()));
}

/// What proxies and cluster clients may want to know.
fn tips(id: Id) -> &'static [&'static str] {
    match id {
        Id::Ttl | Id::PTtl | Id::Time | Id::ClientInfo | Id::ClientList => &["nondeterministic_output"],
        Id::HScan | Id::HRandField | Id::SPop | Id::SRandMember | Id::SScan => &["nondeterministic_output"],
        Id::ZScan | Id::ZRandMember => &["nondeterministic_output"],
        Id::HGetAll | Id::HKeys | Id::HVals | Id::SMembers => &["nondeterministic_output_order"],
        Id::SInter | Id::SUnion | Id::SDiff => &["nondeterministic_output_order"],
        Id::Command | Id::CommandDocs | Id::CommandInfo => &["nondeterministic_output_order"],
        Id::MGet => &["request_policy:multi_shard"],
        Id::MSet => &["request_policy:multi_shard", "response_policy:all_succeeded"],
        Id::MSetNx => &["request_policy:multi_shard", "response_policy:agg_min"],
        Id::Del | Id::Unlink | Id::Exists => &["request_policy:multi_shard", "response_policy:agg_sum"],
        Id::Scan => &["nondeterministic_output", "request_policy:special"],
        Id::Keys => &["request_policy:all_shards", "nondeterministic_output_order"],
        Id::DbSize => &["request_policy:all_shards", "response_policy:agg_sum"],
        Id::FlushDb | Id::FlushAll | Id::Ping => &["request_policy:all_shards", "response_policy:all_succeeded"],
        Id::SlowLogGet => &["request_policy:all_nodes", "nondeterministic_output"],
        Id::SlowLogLen => &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        Id::SlowLogReset | Id::ConfigSet => &["request_policy:all_nodes", "response_policy:all_succeeded"],
        Id::Info => &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        _ => &[],
    }
}

/// Why a key is accessed in ways that the command's name does not tell.
fn key_notes(id: Id) -> Option<&'static str> {
    match id {
        Id::Set => Some("RW and ACCESS due to the optional `GET` argument"),
        Id::GetEx => Some("RW and UPDATE because it changes the TTL"),
        Id::Fcall => Some("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"),
        Id::FcallRo => Some("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"),
        _ => None,
    }
}

fn write_word_set(writer: &mut ReplyWriter<'_>, words: &str) {
    writer.set(words.split_whitespace().count());
    words.split_whitespace().for_each(|word| writer.simple(word));
}

/// Where the keys are, once more, in the form of Redis 7: those with which the same is done from an index on, to a last one counted
/// from there, or as many as a number says.
fn write_key_specifications(writer: &mut ReplyWriter<'_>, spec: &Spec) {
    let keys = spec.keys;
    let accesses: Vec<&str> = keys.access.split('|').filter(|access| !access.is_empty()).collect();
    let is_counted = spec.flags.split_whitespace().any(|flag| flag == "movablekeys");
    let first = match spec.id {
        Id::Fcall | Id::FcallRo => 2,
        _ => keys.first.max(1),
    };
    writer.set(accesses.len());
    for (access, index) in accesses.iter().zip(first..) {
        let notes = key_notes(spec.id);
        writer.map(3 + usize::from(notes.is_some()));
        if let Some(notes) = notes {
            writer.bulk(b"notes");
            writer.bulk(notes.as_bytes());
        }
        writer.bulk(b"flags");
        write_word_set(writer, access);
        writer.bulk(b"begin_search");
        write_typed(writer, "index", &[("index", index)]);
        writer.bulk(b"find_keys");
        if index > keys.last && is_counted {
            write_typed(writer, "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)]);
        } else {
            let last = match keys.last {
                _ if (index as usize) < accesses.len() => 0,
                last @ ..0 => last,
                last => last - index,
            };
            write_typed(writer, "range", &[("lastkey", last), ("keystep", keys.step), ("limit", 0)]);
        }
    }
}

fn write_typed(writer: &mut ReplyWriter<'_>, type_name: &str, numbers: &[(&str, i32)]) {
    writer.map(2);
    writer.bulk(b"type");
    writer.bulk(type_name.as_bytes());
    writer.bulk(b"spec");
    writer.map(numbers.len());
    for (name, number) in numbers {
        writer.bulk(name.as_bytes());
        writer.integer(i64::from(*number));
    }
}

/// The documentation of the named commands that there are, or of all.
fn write_docs_of(writer: &mut ReplyWriter<'_>, names: Arguments<'_>) {
    let specs: Vec<&Spec> = match names.is_empty() {
        true => specs::all().collect(),
        false => names.iter().filter_map(find_by_full_name).collect(),
    };
    write_docs(writer, &specs);
}

fn write_docs(writer: &mut ReplyWriter<'_>, specs: &[&Spec]) {
    writer.map(specs.len());
    for spec in specs {
        writer.bulk(spec.name.as_bytes());
        let has_arguments = !spec.syntax.is_empty();
        let has_subcommands = !spec.subcommands.is_empty();
        writer.map(3 + usize::from(has_arguments) + usize::from(has_subcommands));
        for (name, text) in [("summary", spec.summary), ("since", spec.since), ("group", spec.group)] {
            writer.bulk(name.as_bytes());
            writer.bulk(text.as_bytes());
        }
        if has_arguments {
            write_arguments(writer, spec.syntax);
        }
        if has_subcommands {
            writer.bulk(b"subcommands");
            write_docs(writer, &spec.subcommands.iter().collect::<Vec<_>>());
        }
    }
}

/// The whole syntax as one argument, which redis-cli shows as its hint word for word.
fn write_arguments(writer: &mut ReplyWriter<'_>, syntax: &str) {
    writer.bulk(b"arguments");
    writer.array(1);
    writer.map(2);
    writer.bulk(b"name");
    writer.bulk(syntax.as_bytes());
    writer.bulk(b"type");
    writer.bulk(b"string");
}

/// The help of the container to which `help`, its HELP subcommand, belongs, laid out as Redis does it.
pub(crate) fn write_help(writer: &mut ReplyWriter<'_>, help: &Spec) {
    let container = help.name.split('|').next().and_then(|name| find_by_full_name(name.as_bytes()));
    let subcommands = container.map_or(&[][..], |container| container.subcommands);
    let name = container.map_or("", |container| container.name).to_ascii_uppercase();
    writer.array(1 + 2 * subcommands.len());
    writer.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for subcommand in subcommands {
        let title = subcommand.short_name().to_ascii_uppercase();
        writer.simple(format!("{title} {}", subcommand.syntax).trim_end());
        writer.simple(&format!("    {}", subcommand.summary));
    }
}
