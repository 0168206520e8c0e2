//! Secrets as they are stored: never themselves.
//!
//! A password is chosen by people and can be guessed, so what is stored is made slow to guess from: argon2id with a
//! random salt. A token is drawn by us, 256 random bits: nobody guesses it, and a plain SHA-256 is as good as anything
//! and costs a microsecond.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// No password is longer.
pub const PASSWORD_BYTES_MAX: usize = 1024;
const SALT_BYTES: usize = 16;
const TOKEN_BYTES: usize = 32;
/// What tokens begin with, so that people and scanners of leaked secrets know them.
const TOKEN_PREFIX: &str = "quorate_";
const TOKEN_HASH_PREFIX: &str = "sha256:";

/// What one check of a password may cost, as a hash may ask for anything.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 100;
const LANES_MAX: u32 = 64;

/// Why there is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("the password is empty")]
    Empty,
    #[error("the password is longer than {PASSWORD_BYTES_MAX} bytes")]
    TooLong,
    #[error("cannot draw random bytes")]
    Random,
    #[error("a password hash begins with $argon2id$ or another argon2; make one with `quorate password`")]
    NoPasswordHash,
    #[error(
        "the password hash asks for more than {MEMORY_KIB_MAX} KiB, {PASSES_MAX} passes or {LANES_MAX} lanes; make one \
         with `quorate password`"
    )]
    TooCostly,
    #[error("a token hash is {TOKEN_HASH_PREFIX} and 64 hexadecimal digits; make one with `quorate token`")]
    NoTokenHash,
}

/// What a password is checked against, as an argon2 string in the PHC format.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(phc::PasswordHash);

impl PasswordHash {
    /// Takes tens of milliseconds.
    pub fn make(password: &[u8]) -> Result<PasswordHash, SecretError> {
        PasswordHash::make_with(password, Params::DEFAULT)
    }

    fn make_with(password: &[u8], params: Params) -> Result<PasswordHash, SecretError> {
        match password.len() {
            0 => return Err(SecretError::Empty),
            length if length > PASSWORD_BYTES_MAX => return Err(SecretError::TooLong),
            _ => {}
        }
        let salt: [u8; SALT_BYTES] = random()?;
        let argon2 = Argon2::new(Algorithm::Argon2id, argon2::Version::V0x13, params);
        let hash = argon2.hash_password_with_salt(password, &salt);
        // Its parameters, salt and password are as they should be.
        Ok(PasswordHash(hash.expect("argon2 takes any password of this length")))
    }

    /// Takes tens of milliseconds, and as long for a wrong password as for the right one.
    #[must_use]
    pub fn is_of(&self, password: &[u8]) -> bool {
        Argon2::default().verify_password(password, &self.0).is_ok()
    }
}

impl FromStr for PasswordHash {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<PasswordHash, SecretError> {
        let hash = phc::PasswordHash::new(text).map_err(|_| SecretError::NoPasswordHash)?;
        let is_complete = hash.salt.is_some() && hash.hash.is_some();
        let (Ok(_), Ok(params), true) =
            (Algorithm::try_from(hash.algorithm.as_str()), Params::try_from(&hash), is_complete)
        else {
            return Err(SecretError::NoPasswordHash);
        };
        if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX || params.p_cost() > LANES_MAX {
            return Err(SecretError::TooCostly);
        }
        Ok(PasswordHash(hash))
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(password hash)")
    }
}

/// A bearer token for administrators, as it is given to them.
pub struct Token(Zeroizing<String>);

impl Token {
    pub fn random() -> Result<Token, SecretError> {
        let bytes: Zeroizing<[u8; TOKEN_BYTES]> = Zeroizing::new(random()?);
        Ok(Token(Zeroizing::new(format!("{TOKEN_PREFIX}{}", Hex(&*bytes)))))
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(token)")
    }
}

/// What a token is checked against.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; SHA256_OUTPUT_LEN]);

impl TokenHash {
    fn of(token: &[u8]) -> TokenHash {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, token).as_ref());
        TokenHash(hash)
    }

    /// In a time that tells nothing of the token.
    #[must_use]
    pub fn is_of(&self, token: &[u8]) -> bool {
        *self == TokenHash::of(token)
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &TokenHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl FromStr for TokenHash {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<TokenHash, SecretError> {
        let digits =
            text.strip_prefix(TOKEN_HASH_PREFIX).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let digits = digits.filter(|digits| digits.len() == 2 * SHA256_OUTPUT_LEN).ok_or(SecretError::NoTokenHash)?;
        let mut hash = [0; SHA256_OUTPUT_LEN];
        for (byte, digits) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let digits = str::from_utf8(digits).map_err(|_| SecretError::NoTokenHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| SecretError::NoTokenHash)?;
        }
        Ok(TokenHash(hash))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TOKEN_HASH_PREFIX}{}", Hex(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(token hash)")
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn random<const N: usize>() -> Result<[u8; N], SecretError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| SecretError::Random)?;
    Ok(bytes)
}

/// A hash that is quickly checked, for tests of what does not depend on its being slow.
#[cfg(test)]
pub(crate) fn cheap_hash(password: &[u8]) -> PasswordHash {
    let params = Params::new(Params::MIN_M_COST, 1, 1, None).expect("valid");
    PasswordHash::make_with(password, params).expect("a good password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_its_password_alone_and_never_twice_the_same() {
        let hash = PasswordHash::make(b"correct horse").expect("a good password");
        assert!(hash.to_string().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let read: PasswordHash = hash.to_string().parse().expect("as it was written");
        assert_eq!(read, hash);
        assert!(read.is_of(b"correct horse"));
        assert!(!read.is_of(b"correct horsf"));
        assert_ne!(cheap_hash(b"x"), cheap_hash(b"x"), "salted");
        assert_eq!(format!("{hash:?}"), "(password hash)");
    }

    #[test]
    fn hashes_by_others_are_taken_unless_they_cost_too_much() {
        let parse = |text: &str| text.parse::<PasswordHash>();
        let costly = |params: &str| format!("$argon2id$v=19${params}$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAA");
        assert!(parse(&costly("m=64,t=1,p=1")).is_ok());
        for params in ["m=1048577,t=1,p=1", "m=64,t=101,p=1", "m=1024,t=1,p=65"] {
            assert_eq!(parse(&costly(params)), Err(SecretError::TooCostly), "{params}");
        }
        for text in
            ["secret", "", "$argon2id$v=19$m=64,t=1,p=1", "$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"]
        {
            assert_eq!(parse(text), Err(SecretError::NoPasswordHash), "{text}");
        }
    }

    #[test]
    fn passwords_are_neither_empty_nor_endless() {
        assert_eq!(PasswordHash::make(b""), Err(SecretError::Empty));
        assert_eq!(PasswordHash::make(&[b'x'; PASSWORD_BYTES_MAX + 1]), Err(SecretError::TooLong));
    }

    #[test]
    fn tokens_are_random_and_known_by_their_hash() {
        let (token, other) = (Token::random().expect("random"), Token::random().expect("random"));
        assert_ne!(token.expose(), other.expose());
        let hash: TokenHash = token.hash().to_string().parse().expect("as it was written");
        assert!(hash.is_of(token.expose().as_bytes()));
        assert!(!hash.is_of(other.expose().as_bytes()));
        // What `printf %s abc | sha256sum` prints.
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(known.parse::<TokenHash>().expect("a hash").is_of(b"abc"));
        for text in ["abc", "sha256:abc", &known[7..], &known.replace('b', "g"), &known.replacen("ba", "é", 1)] {
            assert_eq!(text.parse::<TokenHash>(), Err(SecretError::NoTokenHash), "{text}");
        }
    }
}
