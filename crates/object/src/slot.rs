//! Which slot a key belongs to, exactly as Redis Cluster says it.

/// Slots of a namespace. Volumes are ranges of them.
pub const SLOT_COUNT: u16 = 16_384;

/// CRC16 of the key's hash tag, or of all of it, modulo [`SLOT_COUNT`].
#[must_use]
pub fn slot_of_key(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT
}

/// What stands between the first `{` and the first `}` behind it, unless that is nothing; else the whole key.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let behind = &key[open + 1..];
        behind.iter().position(|&byte| byte == b'}').map(|length| &behind[..length])
    });
    match tag {
        Some(tag) if !tag.is_empty() => tag,
        _ => key,
    }
}

/// CRC16-CCITT in the variant XMODEM: polynomial 0x1021, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| crc << 8 ^ CRC16_TABLE[usize::from(crc >> 8 ^ u16::from(byte))])
}

static CRC16_TABLE: [u16; 256] = crc16_table();

const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // The check value of CRC16/XMODEM, and slots that Redis Cluster's specification and CLUSTER KEYSLOT give.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of_key(b"foo"), 12_182);
        assert_eq!(slot_of_key(b"bar"), 5_061);
        assert_eq!(slot_of_key(b""), 0);
    }

    #[test]
    fn hash_tags_put_keys_together() {
        assert_eq!(slot_of_key(b"{user1000}.following"), slot_of_key(b"user1000"));
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"foo{bar"), b"foo{bar");
        assert_eq!(hash_tag(b"foo}bar{"), b"foo}bar{");
    }
}
