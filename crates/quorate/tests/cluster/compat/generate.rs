//! Random commands: right ones, and wrong in every way that a client can think of.
//!
//! What two correct servers may answer differently is not asked: a deadline that passes between two commands, where a
//! SCAN is half way, commands that only one of them has.

use super::commands::{COMMANDS, IN_TRANSACTIONS, ON_SEVERAL, RARE};
use super::several;
use super::step::{After, Form, Step};
use super::words;
use crate::random::Random;

pub(crate) struct Generator {
    random: Random,
    version: u8,
    /// Sent first in the next batch: what makes the servers see that a key has expired.
    touch: Option<Step>,
}

impl Generator {
    pub(crate) fn new(random: Random, version: u8) -> Generator {
        Generator { random, version, touch: None }
    }

    /// What a new connection sends first.
    pub(crate) fn opening(&mut self) -> Vec<Step> {
        match self.version {
            3 => vec![Step::of(&["HELLO", "3"])],
            _ => vec![Step::of(&["PING"])],
        }
    }

    /// Whether the next batch begins with a look at a key that has expired: in the database that it is in, so on the same connection.
    pub(crate) fn awaits_expiry(&self) -> bool {
        self.touch.is_some()
    }

    /// A pipeline of 1 to 24 steps. Only its last may have something to be done after it.
    pub(crate) fn batch(&mut self) -> Vec<Step> {
        if self.random.below(150) == 0 {
            return vec![self.whole_scan()];
        }
        // Redis closes at once, and may forget the replies to what was before it.
        if self.random.below(2000) == 0 {
            return vec![Step { after: After::EndOfBatch, ..Step::raw(self.pick(words::HTTP)) }];
        }
        if self.touch.is_none() && self.random.below(12) == 0 {
            return vec![self.transaction()];
        }
        if self.touch.is_none() && self.random.below(6) == 0 {
            return self.on_several();
        }
        let length = match self.random.below(4) {
            0 => 1,
            1 => 2 + self.random.below(22),
            _ => 2 + self.random.below(6),
        };
        let mut batch: Vec<Step> = self.touch.take().into_iter().collect();
        // Some commands have taken the connection back to version 2.
        if self.version == 3 && self.random.below(8) == 0 {
            batch.push(Step::of(&["HELLO", "3"]));
        }
        while (batch.len() as u64) < length {
            let step = self.step();
            let leaves_expired = sets_past_deadline(&step.words).then(|| exists(&step.words));
            batch.push(step);
            batch.extend(leaves_expired);
            if batch.last().is_some_and(|step| step.after != After::Nothing) {
                break;
            }
        }
        batch
    }

    /// Commands on several keys, and on what they are about, in the namespaces that take them.
    fn on_several(&mut self) -> Vec<Step> {
        let database = if self.random.below(3) == 0 { "1" } else { "0" };
        let mut batch = vec![Step::of(&["SELECT", database])];
        for _ in 0..=self.random.below(12) {
            let template = ON_SEVERAL[self.random.below(ON_SEVERAL.len() as u64) as usize];
            let command = self.command_of(template);
            if is_comparable(&command) {
                batch.push(Step::request(command));
            }
        }
        batch
    }

    /// In the namespaces that take them, from MULTI to EXEC; some with what makes nothing of it. It is one step: in the midst of it
    /// nothing else is answered.
    fn transaction(&mut self) -> Step {
        let database = if self.random.below(3) == 0 { "1" } else { "0" };
        let mut batch = vec![Step::of(&["SELECT", database]), Step::of(&["MULTI"])];
        for _ in 0..self.random.below(6) {
            let template = match self.random.below(60) {
                0 => "unknown words",
                1 => "MULTI",
                _ => IN_TRANSACTIONS[self.random.below(IN_TRANSACTIONS.len() as u64) as usize],
            };
            let mut words = Vec::new();
            template.split(' ').for_each(|kind| self.fill(kind, &mut words));
            if self.random.below(40) == 0 && words.len() > 1 {
                words.pop();
            }
            if is_comparable(&words) {
                batch.push(Step::request(words));
            }
        }
        let leave_expired = batch.iter().filter(|step| sets_past_deadline(&step.words));
        let looks: Vec<Step> = leave_expired.map(|step| exists(&step.words)).collect();
        batch.push(Step::of(&[if self.random.below(8) == 0 { "DISCARD" } else { "EXEC" }]));
        batch.extend(looks);
        let mut bytes = Vec::new();
        batch.iter().for_each(|step| step.write(&mut bytes));
        Step::raw(&bytes)
    }

    fn step(&mut self) -> Step {
        if self.random.below(400) == 0 {
            return Step { after: After::EndOfBatch, ..Step::raw(self.pick(words::RAW)) };
        }
        if self.random.below(400) == 0 {
            return self.expiring_soon();
        }
        let command = loop {
            let command = self.command();
            if is_comparable(&command) {
                break command;
            }
        };
        let is_inexact = is_any(&command[0], &["INCRBYFLOAT", "HINCRBYFLOAT", "SPOP"]);
        let after = if is_inexact { After::EndOfBatch } else { After::Nothing };
        let form = match self.random.below(12) {
            0 => self.line(&command).map_or(Form::Request, Form::Raw),
            _ => Form::Request,
        };
        Step { words: command, form, after }
    }

    /// A key that is gone a moment later.
    fn expiring_soon(&mut self) -> Step {
        let mut words = vec![b"SET".to_vec()];
        self.fill("key", &mut words);
        words.extend([b"v".to_vec(), b"PX".to_vec(), b"1".to_vec()]);
        self.touch = Some(exists(&words));
        Step { words, form: Form::Request, after: After::Expiry }
    }

    fn whole_scan(&mut self) -> Step {
        let mut words = Vec::new();
        // Not TYPE, which shows more of objects with groups of their own.
        for (name, choices) in [("MATCH", words::PATTERNS), ("COUNT", words::COUNTS)] {
            if self.random.below(2) == 0 {
                words.extend([name.as_bytes().to_vec(), self.pick(choices).to_vec()]);
            }
        }
        Step { words, form: Form::WholeScan, after: After::Nothing }
    }

    fn command(&mut self) -> Vec<Vec<u8>> {
        let template = match self.random.below(60) {
            0 => RARE[self.random.below(RARE.len() as u64) as usize],
            _ => self.usual_template(),
        };
        self.command_of(template)
    }

    /// Of this form, or spoiled.
    fn command_of(&mut self, template: &'static str) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        template.split(' ').for_each(|kind| self.fill(kind, &mut words));
        if self.random.below(7) == 0 {
            self.spoil(&mut words);
        }
        if self.random.below(4) == 0 {
            self.change_case(&mut words[0]);
        }
        words
    }

    fn usual_template(&mut self) -> &'static str {
        let total = COMMANDS.iter().map(|(weight, _)| weight).sum();
        let mut place = self.random.below(total);
        for (weight, template) in COMMANDS {
            match place.checked_sub(*weight) {
                Some(rest) => place = rest,
                None => return template,
            }
        }
        unreachable!("the place is below the sum of the weights")
    }

    /// A word too few or too many, or one that does not belong there.
    fn spoil(&mut self, words: &mut Vec<Vec<u8>>) {
        let stranger = match self.random.below(3) {
            0 => self.pick(words::OPTIONS),
            1 => self.pick(words::NUMBERS),
            _ => self.pick(words::VALUES),
        };
        let place = 1 + self.random.below(words.len() as u64) as usize;
        match self.random.below(5) {
            0 if words.len() > 1 => drop(words.pop()),
            1 => words.push(stranger.to_vec()),
            2 => words.insert(place, stranger.to_vec()),
            3 if place + 1 < words.len() => words.swap(place, place + 1),
            _ if place < words.len() => words[place] = stranger.to_vec(),
            _ => words.push(stranger.to_vec()),
        }
    }

    fn change_case(&mut self, word: &mut [u8]) {
        for byte in word {
            if self.random.below(2) == 0 {
                byte.make_ascii_lowercase();
            }
        }
    }

    /// Appends what `kind` stands for.
    fn fill(&mut self, kind: &'static str, words: &mut Vec<Vec<u8>>) {
        if !kind.starts_with(|first: char| first.is_ascii_lowercase()) {
            return words.push(kind.as_bytes().to_vec());
        }
        match kind {
            "key" => match self.random.below(20) {
                0 => words.push(self.pick(words::TYPED_KEYS).to_vec()),
                _ => words.push(self.pick(words::KEYS).to_vec()),
            },
            "tagged" => words.push(self.pick(&[b"{tag}1", b"{tag}2", b"{tag}"]).to_vec()),
            "any-tagged" => words.push(self.pick(words::TAGGED).to_vec()),
            "tagged-list" => self.tagged_key(words::TAGGED_LISTS, words),
            "tagged-set" => self.tagged_key(words::TAGGED_SETS, words),
            "tagged-zset" => self.tagged_key(words::TAGGED_SORTED_SETS, words),
            "tagged-sets" => (0..=self.random.below(3)).for_each(|_| self.fill("tagged-set", words)),
            "counted-lists" => drop(self.counted_keys("tagged-list", words)),
            "counted-sets" => drop(self.counted_keys("tagged-set", words)),
            "counted-zsets" => drop(self.counted_keys("any-zset", words)),
            "weighted-zsets" => {
                let count = self.counted_keys("any-zset", words);
                words.push(b"WEIGHTS".to_vec());
                (0..count).for_each(|_| words.push(self.pick(words::WEIGHTS).to_vec()));
            }
            // Sets are taken, too.
            "any-zset" if self.random.below(5) == 0 => self.fill("tagged-set", words),
            "any-zset" => self.fill("tagged-zset", words),
            "aggregate" => words.extend([b"AGGREGATE".to_vec(), self.pick(words::AGGREGATES).to_vec()]),
            "combine-options" => self.options(&[&["WITHSCORES", "WEIGHTS", "AGGREGATE", "MIN", "LIMIT", "1"]], words),
            "limit-option" if self.random.below(2) == 0 => {}
            "limit-option" => words.extend([b"LIMIT".to_vec(), self.pick(words::CHANCES).to_vec()]),
            "pop-options" if self.random.below(2) == 0 => {}
            "pop-options" => words.extend([b"COUNT".to_vec(), self.pick(words::CHANCES).to_vec()]),
            "copy-options" => self.several(&[b"REPLACE", b"replace", b"REPLACE", b"DB", b"NX"], words),
            "side" => words.push(self.pick(words::SIDES).to_vec()),
            "end" => words.push(self.pick(&[b"MIN", b"MAX", b"min", b"LEFT"]).to_vec()),
            "several-keys-names" => self.several(words::SEVERAL_KEYS, words),
            "hash" => self.typed_key(words::HASHES, words),
            "list" => self.typed_key(words::LISTS, words),
            "set" => self.typed_key(words::SETS, words),
            "field" => words.push(self.pick(words::ELEMENTS).to_vec()),
            "fields" => (0..=self.random.below(4)).for_each(|_| self.fill("field", words)),
            "field-values" => (0..=self.random.below(4)).for_each(|_| {
                self.fill("field", words);
                self.fill("value", words);
            }),
            "zset" => self.typed_key(words::SORTED_SETS, words),
            "score" => words.push(self.pick(words::SCORES).to_vec()),
            "scored" => (0..=self.random.below(5)).for_each(|_| {
                self.fill("score", words);
                self.fill("field", words);
            }),
            "score-bound" => words.push(self.pick(words::SCORE_BOUNDS).to_vec()),
            "member-bound" => words.push(self.pick(words::MEMBER_BOUNDS).to_vec()),
            "zadd-options" => self.options(&[&["NX", "XX", "GT", "LT", "CH", "INCR"]], words),
            "zrange-options" => self.range_options(words),
            "chance" => words.push(self.pick(words::CHANCES).to_vec()),
            "where" => words.push(self.pick(&[b"BEFORE", b"AFTER", b"before", b"After", b"NEAR", b""]).to_vec()),
            "position-options" => self.position_options(words),
            "keys" => (0..=self.random.below(5)).for_each(|_| self.fill("key", words)),
            "pairs" => (0..=self.random.below(4)).for_each(|_| {
                self.fill("key", words);
                self.fill("value", words);
            }),
            "value" => words.push(self.value()),
            "integer" => words.push(self.pick(words::NUMBERS).to_vec()),
            "float" => words.push(self.float()),
            "seconds" => words.push(self.duration(1_000_000_000)),
            "milliseconds" => words.push(self.duration(1_000_000_000_000)),
            "unix-seconds" => words.push(self.pick(words::UNIX_SECONDS).to_vec()),
            "unix-milliseconds" => words.push(self.pick(words::UNIX_MILLISECONDS).to_vec()),
            "place" => words.push(self.pick(words::PLACES).to_vec()),
            "offset" => words.push(self.pick(words::OFFSETS).to_vec()),
            "pattern" => words.push(self.pick(words::PATTERNS).to_vec()),
            "cursor" => words.push(self.pick(words::CURSORS).to_vec()),
            "name" => words.push(self.pick(words::NAMES).to_vec()),
            "user" => words.push(self.pick(words::USERS).to_vec()),
            "database" => words.push(self.pick(words::DATABASES).to_vec()),
            "switch" => words.push(self.pick(&[b"ON", b"On", b"maybe", b""]).to_vec()),
            "unknown" => words.push(self.pick(words::UNKNOWN).to_vec()),
            "words" => (0..self.random.below(6)).for_each(|_| words.push(self.value())),
            "command-names" => self.several(words::COMMAND_NAMES, words),
            "parameters" => self.several(words::PARAMETERS, words),
            "sections" => self.several(words::SECTIONS, words),
            "flush-mode" => self.several(&[b"SYNC", b"ASYNC", b"async", b"NOW"], words),
            "set-options" => self.options(&[&["NX", "XX", "KEEPTTL", "GET"], TIMES], words),
            "getex-options" => self.options(&[&["PERSIST"], TIMES], words),
            "expire-options" => self.options(&[&["NX", "XX", "GT", "LT"]], words),
            "scan-options" => self.scan_options(words),
            "hello-options" => self.hello_options(words),
            "client-options" => self.client_options(words),
            "kill-options" => self.kill_options(words),
            "changes" => (0..=self.random.below(2)).for_each(|_| {
                words.push(
                    self.pick(&[b"slowlog-log-slower-than", b"SlowLog-Log-Slower-Than", b"nosuch", b""]).to_vec(),
                );
                words.push(self.pick(words::NUMBERS).to_vec());
            }),
            other => unreachable!("nothing is called {other}"),
        }
    }

    /// Mostly of this type.
    fn typed_key(&mut self, of_type: &[&'static [u8]], words: &mut Vec<Vec<u8>>) {
        let keys = match self.random.below(12) {
            0 => words::TYPED_KEYS,
            1 => words::KEYS,
            _ => of_type,
        };
        words.push(self.pick(keys).to_vec());
    }

    /// Mostly of this type, and always in the same hash slot.
    fn tagged_key(&mut self, of_type: &[&'static [u8]], words: &mut Vec<Vec<u8>>) {
        let keys = if self.random.below(12) == 0 { words::TAGGED } else { of_type };
        words.push(self.pick(keys).to_vec());
    }

    /// Some keys behind their number, which is mostly right.
    fn counted_keys(&mut self, kind: &'static str, words: &mut Vec<Vec<u8>>) -> u64 {
        let count = 1 + self.random.below(3);
        words.push(match self.random.below(15) {
            0 => self.pick(words::COUNTS_OF_KEYS).to_vec(),
            _ => count.to_string().into_bytes(),
        });
        (0..count).for_each(|_| self.fill(kind, words));
        count
    }

    fn value(&mut self) -> Vec<u8> {
        match self.random.below(40) {
            0 => vec![b'x'; self.random.below(20_000) as usize],
            1 => (0..self.random.below(300)).map(|byte| byte as u8).collect(),
            2..14 => self.pick(words::NUMBERS).to_vec(),
            14..20 => self.pick(words::FLOATS).to_vec(),
            20..23 => self.random.below(1_000_000).to_string().into_bytes(),
            _ => self.pick(words::VALUES).to_vec(),
        }
    }

    fn float(&mut self) -> Vec<u8> {
        match self.random.below(4) {
            0 => self.pick(words::NUMBERS).to_vec(),
            1 if self.random.below(5) == 0 => self.pick(words::REFUSED_FLOATS).to_vec(),
            1 => format!("{}.{}", self.random.below(2000) as i64 - 1000, self.random.below(1000)).into_bytes(),
            _ => self.pick(words::FLOATS).to_vec(),
        }
    }

    /// Long enough not to pass during the test, and seldom as long as another one; or odd.
    fn duration(&mut self, most: u64) -> Vec<u8> {
        match self.random.below(4) {
            0 => self.pick(words::ODD_DURATIONS).to_vec(),
            _ => (most / 1000 + self.random.below(most)).to_string().into_bytes(),
        }
    }

    fn options(&mut self, groups: &[&[&'static str]], words: &mut Vec<Vec<u8>>) {
        let count = [0, 1, 1, 1, 2, 2, 3][self.random.below(7) as usize];
        for _ in 0..count {
            let group = groups[self.random.below(groups.len() as u64) as usize];
            let mut option = group[self.random.below(group.len() as u64) as usize].as_bytes().to_vec();
            let time = match &option[..] {
                b"EX" => Some("seconds"),
                b"PX" => Some("milliseconds"),
                b"EXAT" => Some("unix-seconds"),
                b"PXAT" => Some("unix-milliseconds"),
                _ => None,
            };
            if self.random.below(3) == 0 {
                self.change_case(&mut option);
            }
            words.push(option);
            if let Some(time) = time {
                self.fill(time, words);
            }
        }
    }

    fn scan_options(&mut self, words: &mut Vec<Vec<u8>>) {
        for _ in 0..self.random.below(3) {
            let (name, choices) = match self.random.below(3) {
                0 => ("MATCH", words::PATTERNS),
                1 => ("COUNT", words::ODD_COUNTS),
                _ => ("TYPE", words::TYPES),
            };
            words.extend([name.as_bytes().to_vec(), self.pick(choices).to_vec()]);
        }
    }

    fn position_options(&mut self, words: &mut Vec<Vec<u8>>) {
        for _ in 0..self.random.below(4) {
            let (name, choices) = match self.random.below(3) {
                0 => ("RANK", words::PLACES),
                1 => ("COUNT", words::CHANCES),
                _ => ("MAXLEN", words::CHANCES),
            };
            words.extend([name.as_bytes().to_vec(), self.pick(choices).to_vec()]);
        }
    }

    fn range_options(&mut self, words: &mut Vec<Vec<u8>>) {
        for _ in 0..self.random.below(3) {
            match self.random.below(12) {
                0..4 => words.push(b"WITHSCORES".to_vec()),
                4..8 => {
                    words.push(b"LIMIT".to_vec());
                    (0..2).for_each(|_| words.push(self.pick(words::LIMITS).to_vec()));
                }
                8 => words.push(b"BYLEX".to_vec()),
                9 => words.push(b"byscore".to_vec()),
                _ => words.push(b"REV".to_vec()),
            }
        }
    }

    fn hello_options(&mut self, words: &mut Vec<Vec<u8>>) {
        let versions: &[&[u8]] = &[b"2", b"3", b"3", b"3", b"1", b"4", b"abc", b"", b"03", b"9223372036854775808"];
        if self.random.below(8) == 0 {
            return;
        }
        words.push(self.pick(versions).to_vec());
        for _ in 0..self.random.below(3) {
            let option = self.pick(&[b"AUTH", b"SETNAME", b"setname", b"NOSUCH"]).to_vec();
            let is_auth = option == b"AUTH";
            words.push(option);
            if is_auth {
                self.fill("user", words);
                words.push(b"secret".to_vec());
            } else {
                words.push(self.pick(words::NAMES).to_vec());
            }
        }
    }

    fn client_options(&mut self, words: &mut Vec<Vec<u8>>) {
        match self.random.below(4) {
            0 => {
                words.push(b"TYPE".to_vec());
                words.push(self.pick(&[b"normal", b"MASTER", b"replica", b"pubsub", b"nosuch"]).to_vec());
            }
            1 => {
                words.push(b"ID".to_vec());
                self.several(&[b"999999999", b"abc", b"-1", b"0", b"9223372036854775808"], words);
            }
            _ => {}
        }
    }

    /// Of clients that there are not.
    fn kill_options(&mut self, words: &mut Vec<Vec<u8>>) {
        if self.random.below(4) == 0 {
            return words.push(self.pick(&[b"1.2.3.4:5", b"", b"nobody"]).to_vec());
        }
        for _ in 0..=self.random.below(2) {
            let (name, choices): (&str, &[&[u8]]) = match self.random.below(6) {
                0 => ("ID", &[b"999999999", b"0", b"-1", b"abc", b"", b"9223372036854775808"]),
                1 => ("TYPE", &[b"master", b"replica", b"SLAVE", b"pubsub", b"nosuch", b""]),
                2 => ("USER", &[b"nobody", b""]),
                3 => ("ADDR", &[b"1.2.3.4:5", b""]),
                4 => ("LADDR", &[b"1.2.3.4:5", b""]),
                _ => ("SKIPME", &[b"yes", b"YES", b"maybe"]),
            };
            words.extend([name.as_bytes().to_vec(), self.pick(choices).to_vec()]);
        }
    }

    /// None to three of them.
    fn several(&mut self, choices: &[&[u8]], words: &mut Vec<Vec<u8>>) {
        (0..self.random.below(4)).for_each(|_| words.push(self.pick(choices).to_vec()));
    }

    fn pick<'a>(&mut self, choices: &[&'a [u8]]) -> &'a [u8] {
        choices[self.random.below(choices.len() as u64) as usize]
    }

    /// The command as an inline line, quoted at random. None of what a line would be mistaken for something else.
    fn line(&mut self, words: &[Vec<u8>]) -> Option<Vec<u8>> {
        if words[0].is_empty() || words[0].starts_with(b"*") || words.iter().map(Vec::len).sum::<usize>() > 10_000 {
            return None;
        }
        let mut line = Vec::new();
        for (number, word) in words.iter().enumerate() {
            if number > 0 {
                line.extend_from_slice(self.pick(&[b" ", b"  ", b"\t", b" \t"]));
            }
            self.quote(word, &mut line);
        }
        line.extend_from_slice(self.pick(&[b"\r\n", b"\n", b" \r\n"]));
        Some(line)
    }

    fn quote(&mut self, word: &[u8], line: &mut Vec<u8>) {
        let is_plain =
            !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b":.*-".contains(byte));
        let is_printable = word.iter().all(|byte| (b' '..=b'~').contains(byte) && *byte != b'\\');
        match self.random.below(3) {
            0 | 1 if is_plain => line.extend_from_slice(word),
            2 if is_printable => {
                let text = String::from_utf8_lossy(word).replace('\'', "\\'");
                line.extend_from_slice(format!("'{text}'").as_bytes());
            }
            _ => {
                line.push(b'"');
                for &byte in word {
                    match byte {
                        b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
                        b' '..=b'~' => line.push(byte),
                        _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                    }
                }
                line.push(b'"');
            }
        }
    }
}

const TIMES: &[&str] = &["EX", "PX", "EXAT", "PXAT"];

fn exists(words: &[Vec<u8>]) -> Step {
    let key = words.get(1).cloned().unwrap_or_default();
    Step::request(vec![b"EXISTS".to_vec(), key])
}

/// SET with a deadline that has passed leaves a key in Redis, which is removed when somebody looks.
fn sets_past_deadline(words: &[Vec<u8>]) -> bool {
    let is_absolute = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"EXAT") || word.eq_ignore_ascii_case(b"PXAT");
    words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"SET")) && words.iter().any(is_absolute)
}

/// Whether two correct servers must answer alike.
fn is_comparable(words: &[Vec<u8>]) -> bool {
    if !several::is_comparable(words) {
        return false;
    }
    let name = words[0].to_ascii_uppercase();
    let number = |index: usize| -> Option<i64> { str::from_utf8(words.get(index)?).ok()?.parse().ok() };
    let passes_soon = |index| number(index).is_some_and(|time| (1..1_000_000).contains(&time));
    match &name[..] {
        b"EXPIRE" | b"PEXPIRE" | b"SETEX" | b"PSETEX" => !passes_soon(2),
        b"SET" | b"GETEX" => (3..words.len()).all(|index| {
            let option = words[index - 1].to_ascii_uppercase();
            option != b"IFEQ" && !((option == b"EX" || option == b"PX") && passes_soon(index))
        }),
        // Redis would store it.
        b"SETRANGE" => !number(2).is_some_and(|offset| (1_000_000..600_000_000).contains(&offset)),
        b"SCAN" => words.get(1).is_none_or(|cursor| is_start(cursor)),
        // Redis would answer with so many.
        b"HRANDFIELD" | b"SRANDMEMBER" | b"ZRANDMEMBER" => {
            !number(2).is_some_and(|count| (i64::MIN + 1..-1000).contains(&count))
        }
        b"HSCAN" | b"SSCAN" | b"ZSCAN" => words.get(2).is_none_or(|cursor| is_start(cursor)),
        // Redis takes a set with such a member into another form.
        b"ZADD" | b"ZINCRBY" | b"SADD" | b"SMOVE" => words.iter().all(|word| word.len() <= 64),
        // Not those that there are, nor what silences the connection.
        b"CLIENT" if words.get(1).is_some_and(|word| is_any(word, &["KILL"])) => {
            (2..words.len()).all(|index| number(index).is_none_or(|id| !(1..1_000_000).contains(&id)))
        }
        b"CLIENT" if words.get(1).is_some_and(|word| is_any(word, &["REPLY"])) => {
            !words.iter().any(|word| is_any(word, &["OFF", "SKIP"]))
        }
        // Not the whole table of commands: Redis has more.
        b"COMMAND" => words.len() > 2 || words.len() == 2 && !is_any(&words[1], &["DOCS", "INFO"]),
        _ => true,
    }
}

/// Whether a cursor, if it is one, begins a scan.
fn is_start(cursor: &[u8]) -> bool {
    let digits = cursor.strip_prefix(b"-").or(cursor.strip_prefix(b"+")).unwrap_or(cursor);
    let is_number = !digits.is_empty() && digits.len() < 20 && digits.iter().all(u8::is_ascii_digit);
    !is_number || digits.iter().all(|&digit| digit == b'0')
}

fn is_any(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}
