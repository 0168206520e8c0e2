//! What `QUORATE HELP` tells, laid out as Redis lays out the help of its own commands.

use crate::answer::AdminReply;

/// The subcommands and what each does. Where options are left out here, the subcommand without any word tells them.
const SUBCOMMANDS: [(&str, &str); 36] = [
    ("STATUS [JSON]", "Nodes, namespaces and volumes, in short or with everything as JSON."),
    ("DEMAND [COUNT n]", "What this node's clients ask for, and which objects most."),
    ("NAMESPACE LIST", "The namespaces and their settings."),
    ("NAMESPACE CREATE number [option value ...]", "Make a namespace, which SELECT number enters."),
    ("NAMESPACE SET number READS lease|quorum|local|apportioned", "Change how its reads are answered."),
    ("NAMESPACE MOVE number MEMBERS node,node,... [QUORUM ...]", "Other members where the members decide."),
    ("NAMESPACE DROP number", "Drop a namespace and everything in it."),
    ("GROUP SHOW key|KEYS count key ...", "Tell of the group that an object is in."),
    ("GROUP CREATE key|KEYS count key ... [option value ...]", "Make a string in a group of its own."),
    ("GROUP PROMOTE key|KEYS count key ... [option value ...]", "Give an object a group of its own."),
    ("GROUP DEMOTE key|KEYS count key ...", "Put an object back into its volume."),
    ("GROUP MOVE key MEMBERS node,node,... [QUORUM ...]", "Other members for the group of an object."),
    ("GROUP RETYPE key|KEYS count key ... PROTOCOL protocol [option value ...]", "Another protocol for it."),
    ("QUORUM SET key|KEYS count key ... R W", "Other quorum sizes for registers in groups of their own."),
    ("QUORUM SET NAMESPACE number R W", "Other quorum sizes for a namespace of registers."),
    ("QUORUM SHOW key", "Tell of the group that an object is in, and of its quorums."),
    ("VOLUME LIST namespace", "Where a namespace's volumes are, and where they are moving to."),
    ("VOLUME MOVE namespace volume FROM node TO node", "Move one replica of a volume to another node."),
    ("ROOT SHOW", "Who the members of the root are, which holds nodes, namespaces and where volumes are."),
    ("ROOT MOVE FROM node TO node", "Have a node take a member's place in the root."),
    ("ROOT WIDEN TO node", "Give the root a member more, up to five; it never gets fewer."),
    ("NODE LIST", "The nodes, where they are, and how many volumes each has a replica of."),
    (
        "NODE SHOW name",
        "How many replicas of volumes and of objects' own groups a node has, and what keeps them there.",
    ),
    ("NODE ADD name PEER host:port CLIENT host:port ADMIN host:port", "Let a new node in, and tell its number."),
    ("NODE REMOVE name", "Let a node go for good, which is stopped and has no replica of anything."),
    ("NODE DRAIN name", "Move all replicas of volumes and of objects' own groups that a node has to other nodes."),
    ("NODE UNDRAIN name", "Let it have replicas again."),
    ("NODE LEVEL [STOP]", "Move replicas until all nodes have as many as any other."),
    ("NODE REPLACE AFTER [seconds|NEVER]", "When a node that is away gets its replicas replaced by itself."),
    ("UPGRADE SHOW", "Tell how far the rolling upgrade is, if there is one."),
    ("UPGRADE BEGIN version DRIVER number [ANEW] [SILENT beat]", "Begin one, or go on with it: quorate upgrade does."),
    ("UPGRADE NOTE DRIVER number [BATCH node,node,...] [DONE node,node,...]", "Keep how far it is."),
    ("UPGRADE LEAVE DRIVER number", "Drive it no longer; somebody may go on with it."),
    ("UPGRADE END DRIVER number", "End it, once all nodes are done."),
    ("UPGRADE RAISE", "Raise the feature level to what all nodes know."),
    ("HELP", "Print this help."),
];

pub(super) fn reply() -> AdminReply {
    let first = "QUORATE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".to_owned();
    let lines = SUBCOMMANDS.iter().flat_map(|(syntax, does)| [(*syntax).to_owned(), format!("    {does}")]);
    AdminReply::List(std::iter::once(first).chain(lines).map(AdminReply::Line).collect())
}

#[cfg(test)]
pub(super) fn syntaxes() -> impl Iterator<Item = &'static str> {
    SUBCOMMANDS.iter().map(|(syntax, _)| *syntax)
}
