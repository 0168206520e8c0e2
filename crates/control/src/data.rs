//! Measured workloads as lines of comma-separated values, the first of which names columns and units.

use std::fmt::{self, Write};

use crate::oracle::{Measured, Workload};

/// More members have no columns.
pub const MEMBERS_MAX: usize = 7;
const BEFORE: [&str; 4] = ["members", "write_share_of_1", "object_bytes", "operations_per_second_observed"];

/// A line, counted from 1, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub line: usize,
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

fn header() -> String {
    let writes = (1..=MEMBERS_MAX).map(|write| format!("operations_per_second_write_{write}"));
    BEFORE.into_iter().map(String::from).chain(writes).collect::<Vec<_>>().join(",")
}

/// Columns beyond the members of a line are empty.
///
/// # Panics
/// If there are more than [`MEMBERS_MAX`] members.
pub fn print(measured: &[Measured]) -> String {
    let mut out = header() + "\n";
    for Measured { members, workload, throughputs } in measured {
        assert!(throughputs.len() <= MEMBERS_MAX, "{members} members have columns");
        let Workload { write_share, bytes, throughput } = workload;
        let columns = (0..MEMBERS_MAX).map(|at| throughputs.get(at).map_or(String::new(), |rate| format!("{rate:.1}")));
        let columns = columns.collect::<Vec<_>>().join(",");
        writeln!(out, "{members},{write_share},{bytes},{throughput:.1},{columns}").expect("strings take everything");
    }
    out
}

/// What `quorate lab qopt-oracle --csv` has measured, of a simulated world with a spinning disk.
pub fn simulated() -> Result<Vec<Measured>, ParseError> {
    parse(include_str!("../data/simulated.csv"))
}

pub fn parse(text: &str) -> Result<Vec<Measured>, ParseError> {
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    if lines.next().is_none_or(|(_, line)| line != header()) {
        return Err(ParseError { line: 1, what: format!("it should be {}", header()) });
    }
    let parse = |(line, text): (usize, &str)| parse_line(text).map_err(|what| ParseError { line, what });
    lines.map(parse).collect()
}

fn parse_line(line: &str) -> Result<Measured, String> {
    let columns: Vec<_> = line.split(',').collect();
    if columns.len() != BEFORE.len() + MEMBERS_MAX {
        return Err(format!("there are {} columns, not {}", columns.len(), BEFORE.len() + MEMBERS_MAX));
    }
    let members = columns[0].parse().ok().filter(|members| (1..=MEMBERS_MAX).contains(members));
    let members = members.ok_or_else(|| format!("there are no {:?} members: 1 to {MEMBERS_MAX}", columns[0]))?;
    let write_share = number(columns[1])?;
    if write_share > 1.0 {
        return Err(format!("a share of {write_share} is more than all"));
    }
    let workload = Workload { write_share, bytes: number(columns[2])?, throughput: number(columns[3])? };
    let (rates, empty) = columns[BEFORE.len()..].split_at(members);
    if let Some(column) = empty.iter().find(|column| !column.is_empty()) {
        return Err(format!("{column:?} is of a write quorum of more than {members} members"));
    }
    let throughputs: Vec<_> = rates.iter().map(|rate| number(rate)).collect::<Result<_, _>>()?;
    if throughputs.contains(&0.0) {
        return Err(String::from("a throughput is 0"));
    }
    Ok(Measured { members, workload, throughputs })
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("{text:?} is not a number from 0 on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_parses_and_prints_as_it_is() {
        let files = [include_str!("../data/simulated.csv"), include_str!("../data/workloads.csv")];
        for text in files {
            assert_eq!(print(&parse(text).expect("it parses")), text);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |line: &str| parse(&format!("{}\n{line}\n", header())).expect_err("it is wrong").to_string();
        assert_eq!(wrong("5,0.5"), "line 2: there are 2 columns, not 11");
        assert_eq!(wrong("8,0.5,1,1,1,1,1,1,1,1,1"), "line 2: there are no \"8\" members: 1 to 7");
        assert_eq!(wrong("3,1.5,1,1,1,1,1,,,,"), "line 2: a share of 1.5 is more than all");
        assert_eq!(wrong("3,0.5,NaN,1,1,1,1,,,,"), "line 2: \"NaN\" is not a number from 0 on");
        assert_eq!(wrong("3,0.5,1,1,1,,1,,,,"), "line 2: \"\" is not a number from 0 on");
        assert_eq!(wrong("3,0.5,1,1,1,0,1,,,,"), "line 2: a throughput is 0");
        assert_eq!(wrong("3,0.5,1,1,1,1,1,9,,,"), "line 2: \"9\" is of a write quorum of more than 3 members");
        assert!(parse("").expect_err("it is wrong").to_string().starts_with("line 1: it should be members,"));
    }
}
