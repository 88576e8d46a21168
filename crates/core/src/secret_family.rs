//! Families of secrets that are known by their form: a fixed prefix, and a body of a fixed length or alphabet.
//!
//! Prefixes, alphabets and lengths are those that the issuers document or that public scanners use. A family is listed only if its
//! form is so narrow that hashes, UUIDs, names in code and encoded data do not have it.

use Part::{Run, Text};

/// A family: all of its secrets begin with one of the prefixes, and the parts of the body follow.
pub(crate) struct SecretFamily {
    /// The name in the placeholder.
    pub(crate) name: &'static str,
    pub(crate) prefixes: &'static [&'static str],
    body: &'static [Part],
    /// Whether the body must have a capital or a digit, so that it is not a chain of words in small letters.
    has_capital_or_digit: bool,
}

/// A part of a body.
enum Part {
    /// So many characters of an alphabet, as many as there are.
    Run(Alphabet, usize, usize),
    /// This text.
    Text(&'static str),
}

type Alphabet = fn(u8) -> bool;

/// How a body ends, from some place in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyEnd {
    /// It is complete, and ends there.
    Complete(usize),
    /// The text was cut within it.
    Cut(usize),
}

/// What surrounds the bytes that are matched.
pub(crate) struct Surroundings<'a> {
    /// Whether something was taken out of the text at a place; `None` if nothing was.
    pub(crate) is_junction: Option<&'a dyn Fn(usize) -> bool>,
    /// Whether the text goes on where it ends here.
    pub(crate) is_cut: bool,
}

/// Bytes of a body before `…` that count as a part of a secret.
const MIN_CUT_BYTES: usize = 4;

/// What this program puts where it cuts a text.
const ELLIPSIS: &[u8] = "…".as_bytes();

impl Surroundings<'_> {
    pub(crate) fn is_junction(&self, at: usize) -> bool {
        self.is_junction.is_some_and(|is_junction| is_junction(at))
    }
}

impl SecretFamily {
    /// The end of the secret whose prefix ends there; `None` if it is none.
    pub(crate) fn body_end(&self, bytes: &[u8], start: usize, around: &Surroundings<'_>) -> Option<BodyEnd> {
        let across = self.match_body(bytes, start, around, &|_| false);
        across.or_else(|| self.match_body(bytes, start, around, around.is_junction?))
    }

    /// The same, for a body whose runs end at such places once they are long enough.
    fn match_body(
        &self,
        bytes: &[u8],
        start: usize,
        around: &Surroundings<'_>,
        is_end: &dyn Fn(usize) -> bool,
    ) -> Option<BodyEnd> {
        let mut at = start;
        for part in self.body {
            let (alphabet, min, max): (Alphabet, _, _) = match part {
                Run(alphabet, min, max) => (*alphabet, *min, *max),
                Text(text) if bytes[at..].starts_with(text.as_bytes()) => {
                    at += text.len();
                    continue;
                }
                Text(text) => return cut_end(bytes, (start, at), text.len(), around),
            };
            let is_in_run =
                |(length, byte): &(usize, &u8)| alphabet(**byte) && (*length < min || !is_end(at + length));
            let run = bytes[at..].iter().take(max).enumerate().take_while(is_in_run).count();
            if run < min {
                return cut_end(bytes, (start, at + run), min - run, around);
            }
            at += run;
        }
        let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if bytes.get(at).is_some_and(goes_on) && !around.is_junction(at) {
            return None;
        }
        let is_word = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        (!self.has_capital_or_digit || bytes[start..at].iter().any(is_word)).then_some(BodyEnd::Complete(at))
    }
}

/// Where a body ends that lacks something, if that is because the text was cut.
fn cut_end(
    bytes: &[u8],
    (start, at): (usize, usize),
    missing: usize,
    around: &Surroundings<'_>,
) -> Option<BodyEnd> {
    let is_end = bytes.len() - at < missing && around.is_cut && at == bytes.len();
    let is_shortened = at - start >= MIN_CUT_BYTES && bytes[at..].starts_with(ELLIPSIS);
    (is_end || is_shortened).then_some(BodyEnd::Cut(at))
}

const fn exactly(count: usize, alphabet: Alphabet) -> Part {
    Run(alphabet, count, count)
}

const fn family(
    name: &'static str,
    prefixes: &'static [&'static str],
    body: &'static [Part],
) -> SecretFamily {
    SecretFamily { name, prefixes, body, has_capital_or_digit: false }
}

/// A family whose body may have hyphens or underscores, as chains of words have them.
const fn mixed(name: &'static str, prefixes: &'static [&'static str], body: &'static [Part]) -> SecretFamily {
    SecretFamily { name, prefixes, body, has_capital_or_digit: true }
}

fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn capital(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn small(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

fn any_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn word(byte: u8) -> bool {
    alnum(byte) || byte == b'_'
}

fn hyphenated(byte: u8) -> bool {
    alnum(byte) || byte == b'-'
}

/// Base64 for addresses.
fn url64(byte: u8) -> bool {
    alnum(byte) || byte == b'_' || byte == b'-'
}

fn base64(byte: u8) -> bool {
    alnum(byte) || b"+/=_-".contains(&byte)
}

fn dotted(byte: u8) -> bool {
    url64(byte) || byte == b'.' || byte == b'='
}

/// All families, in the order of their prefixes.
pub(crate) const FAMILIES: &[SecretFamily] = &[
    family("1password-token", &["ops_eyJ"], &[Run(base64, 200, 1200)]),
    family("age-secret-key", &["AGE-SECRET-KEY-1"], &[exactly(58, capital)]),
    family("airtable-token", &["pat"], &[exactly(14, alnum), Text("."), exactly(64, hex)]),
    family("alibaba-access-key-id", &["LTAI"], &[Run(alnum, 16, 26)]),
    mixed("anthropic-key", &["sk-ant-"], &[Run(url64, 32, 255)]),
    mixed("atlassian-token", &["ATATT3", "ATCTT3"], &[Run(base64, 150, 400)]),
    family("aws-access-key-id", &["ABIA", "ACCA", "AKIA", "ASIA"], &[exactly(16, capital)]),
    family("brevo-key", &["xkeysib-"], &[exactly(64, hex), Text("-"), exactly(16, alnum)]),
    family("buildkite-token", &["bkua_"], &[exactly(40, hex)]),
    family("clojars-token", &["CLOJARS_"], &[exactly(60, alnum)]),
    family("cloudflare-origin-key", &["v1.0-"], &[exactly(24, hex), Text("-"), exactly(146, hex)]),
    mixed("contentful-token", &["CFPAT-"], &[exactly(43, url64)]),
    family("databricks-token", &["dapi"], &[exactly(32, hex)]),
    family("deno-token", &["ddp_"], &[exactly(36, alnum)]),
    family("digitalocean-token", &["doo_v1_", "dop_v1_", "dor_v1_"], &[exactly(64, hex)]),
    mixed("docker-token", &["dckr_oat_", "dckr_pat_"], &[Run(url64, 27, 40)]),
    family("doppler-token", &["dp.ct.", "dp.pt.", "dp.sa.", "dp.scim.", "dp.st."], &[Run(alnum, 40, 64)]),
    family("dynatrace-token", &["dt0c01."], &[exactly(24, capital), Text("."), exactly(64, capital)]),
    family("e2b-key", &["e2b_"], &[exactly(40, hex)]),
    family("easypost-key", &["EZAK", "EZTK"], &[exactly(54, alnum)]),
    mixed("figma-token", &["figd_"], &[Run(url64, 40, 60)]),
    family("fly-token", &["fm1a_", "fm1r_", "fm2_"], &[Run(base64, 100, 1200)]),
    mixed("fly-token", &["fo1_"], &[exactly(43, url64)]),
    mixed("frameio-token", &["fio-u-"], &[exactly(64, url64)]),
    family("github-token", &["gho_", "ghp_", "ghr_", "ghs_", "ghu_"], &[Run(alnum, 36, 255)]),
    family("github-token", &["github_pat_"], &[Run(word, 60, 255)]),
    mixed(
        "gitlab-token",
        &[
            "GR1348941",
            "glagent-",
            "glcbt-",
            "gldt-",
            "glffct-",
            "glft-",
            "glimt-",
            "gloas-",
            "glpat-",
            "glptt-",
            "glrt-",
            "glsoat-",
        ],
        &[Run(url64, 20, 300)],
    ),
    mixed("google-api-key", &["AIza"], &[exactly(35, url64)]),
    mixed("google-client-secret", &["GOCSPX-"], &[exactly(28, url64)]),
    mixed("google-token", &["ya29."], &[Run(url64, 30, 2000)]),
    family("grafana-token", &["glsa_"], &[exactly(32, alnum), Text("_"), exactly(8, any_hex)]),
    mixed("grafana-token", &["glc_"], &[Run(base64, 32, 400)]),
    family("groq-key", &["gsk_"], &[Run(alnum, 48, 60)]),
    mixed("heroku-key", &["HRKU-AA"], &[exactly(58, url64)]),
    family("hugging-face-token", &["api_org_", "hf_"], &[exactly(34, alnum)]),
    family("infracost-key", &["ico-"], &[exactly(32, alnum)]),
    family("jfrog-key", &["AKCp"], &[exactly(69, alnum)]),
    family("jfrog-token", &["cmVmdGtu"], &[exactly(56, alnum)]),
    mixed(
        "jwt",
        &["eyJ"],
        &[Run(url64, 8, 8192), Text(".eyJ"), Run(url64, 8, 65_536), Text("."), Run(url64, 22, 2048)],
    ),
    family("langsmith-key", &["lsv2_pt_", "lsv2_sk_"], &[exactly(32, hex), Text("_"), exactly(10, hex)]),
    family("linear-key", &["lin_api_", "lin_oauth_"], &[Run(alnum, 40, 64)]),
    mixed("mapbox-token", &["sk.eyJ"], &[Run(url64, 20, 400), Text("."), Run(url64, 20, 64)]),
    family("netlify-token", &["nfp_"], &[Run(alnum, 36, 44)]),
    family("new-relic-key", &["NRAK-"], &[exactly(27, capital)]),
    family("notion-token", &["ntn_"], &[Run(alnum, 40, 50)]),
    family("npm-token", &["npm_"], &[exactly(36, alnum)]),
    family("nuget-key", &["oy2"], &[exactly(43, small)]),
    family("openai-key", &["sk-"], &[exactly(20, alnum), Text("T3BlbkFJ"), exactly(20, alnum)]),
    mixed("openai-key", &["sk-admin-", "sk-proj-", "sk-svcacct-"], &[Run(url64, 40, 255)]),
    family("openrouter-key", &["sk-or-v1-"], &[exactly(64, hex)]),
    family("perplexity-key", &["pplx-"], &[Run(alnum, 40, 64)]),
    mixed("pinecone-key", &["pcsk_"], &[Run(word, 50, 90)]),
    mixed("planetscale-token", &["pscale_oauth_", "pscale_pw_", "pscale_tkn_"], &[Run(dotted, 32, 64)]),
    family("postman-key", &["PMAK-"], &[exactly(24, hex), Text("-"), exactly(34, hex)]),
    family("prefect-key", &["pnu_"], &[exactly(36, alnum)]),
    family("pulumi-token", &["pul-"], &[exactly(40, hex)]),
    mixed("pypi-token", &["pypi-AgE"], &[Run(url64, 50, 1000)]),
    family("readme-key", &["rdme_"], &[exactly(70, small)]),
    family("render-key", &["rnd_"], &[exactly(32, alnum)]),
    family("replicate-token", &["r8_"], &[exactly(37, alnum)]),
    family("resend-key", &["re_"], &[exactly(8, alnum), Text("_"), exactly(24, alnum)]),
    family("rubygems-key", &["rubygems_"], &[exactly(48, hex)]),
    mixed("sendgrid-key", &["SG."], &[exactly(22, url64), Text("."), exactly(43, url64)]),
    mixed("sentry-token", &["sntrys_"], &[Run(base64, 80, 600)]),
    family("sentry-token", &["sntryu_"], &[exactly(64, hex)]),
    family("shippo-key", &["shippo_live_", "shippo_test_"], &[exactly(40, hex)]),
    family("shopify-token", &["shpat_", "shpca_", "shppa_", "shpss_"], &[exactly(32, any_hex)]),
    mixed(
        "slack-token",
        &["xapp-", "xoxa-", "xoxb-", "xoxe-", "xoxe.xoxb-", "xoxe.xoxp-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"],
        &[Run(hyphenated, 20, 255)],
    ),
    family(
        "slack-webhook",
        &["hooks.slack.com/services/"],
        &[Run(capital, 8, 14), Text("/"), Run(capital, 8, 14), Text("/"), exactly(24, alnum)],
    ),
    family("sourcegraph-token", &["sgp_"], &[exactly(40, hex)]),
    family("sourcegraph-token", &["sgp_"], &[exactly(16, hex), Text("_"), exactly(40, hex)]),
    mixed("square-token", &["sq0atp-"], &[exactly(22, url64)]),
    mixed("square-secret", &["sq0csp-"], &[exactly(43, url64)]),
    family(
        "stripe-key",
        &["rk_live_", "rk_prod_", "rk_test_", "sk_live_", "sk_prod_", "sk_test_"],
        &[Run(alnum, 16, 247)],
    ),
    mixed("stripe-webhook-secret", &["whsec_"], &[Run(base64, 32, 88)]),
    mixed("supabase-key", &["sb_secret_"], &[Run(url64, 20, 64)]),
    family("supabase-token", &["sbp_"], &[exactly(40, hex)]),
    mixed("tailscale-key", &["tskey-"], &[Run(hyphenated, 24, 120)]),
    family("tencent-secret-id", &["AKID"], &[exactly(32, alnum)]),
    family("twilio-key", &["SK"], &[exactly(32, hex)]),
    mixed("typeform-token", &["tfp_"], &[exactly(59, dotted)]),
    mixed("vault-token", &["hvb.", "hvr.", "hvs."], &[Run(url64, 24, 400)]),
    family("xai-key", &["xai-"], &[exactly(80, alnum)]),
];

/// Whether what is matched may begin there: no letter, digit, hyphen or underscore stands before it, but for the end of an escape such
/// as `\n`, `%20` or `\u003d`.
pub(crate) fn begins_word(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    !before.last().copied().is_some_and(url64) || ends_with_escape(before)
}

fn ends_with_escape(before: &[u8]) -> bool {
    let from_end = |count: usize| before.len().checked_sub(count).map(|at| &before[at..]);
    let is_letter = |end: &[u8]| end[0] == b'\\' && b"0abefnrtv".contains(&end[1]);
    let is_code = |end: &[u8], mark: &[u8]| {
        end.strip_prefix(mark).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    from_end(2).is_some_and(is_letter)
        || from_end(3).is_some_and(|end| is_code(end, b"%"))
        || from_end(4).is_some_and(|end| is_code(end, b"\\x"))
        || from_end(6).is_some_and(|end| is_code(end, b"\\u"))
}

/// Secrets of this family, of the shortest and of longer bodies.
/// The fixed beginning of a text that is a known secret as a whole.
pub(crate) fn known_prefix(text: &str) -> Option<&str> {
    let whole = Surroundings { is_junction: None, is_cut: false };
    let prefixes =
        FAMILIES.iter().flat_map(|family| family.prefixes.iter().map(move |prefix| (family, *prefix)));
    let is_whole = |(family, prefix): &(&SecretFamily, &str)| {
        text.starts_with(prefix)
            && family.body_end(text.as_bytes(), prefix.len(), &whole) == Some(BodyEnd::Complete(text.len()))
    };
    prefixes.filter(is_whole).map(|(_, prefix)| &text[..prefix.len()]).max_by_key(|prefix| prefix.len())
}

#[cfg(test)]
pub(crate) fn samples(family: &SecretFamily, count: usize) -> Vec<String> {
    let mut seed = 1_u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let mut samples = Vec::new();
    for at in 0..count {
        let mut secret = family.prefixes[at % family.prefixes.len()].to_owned();
        for part in family.body {
            match part {
                Text(text) => secret.push_str(text),
                Run(alphabet, min, max) => {
                    let letters: Vec<u8> = (b'!'..=b'~').filter(|byte| alphabet(*byte)).collect();
                    let length = (*max).min(min + at * 7);
                    // It ends with a letter or a digit, as all of them do.
                    let plain: Vec<u8> = letters.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
                    let letter = |letters: &[u8], next: usize| char::from(letters[next % letters.len()]);
                    secret.extend((1..length).map(|_| letter(&letters, next())));
                    secret.push(letter(&plain, next()));
                }
            }
        }
        samples.push(secret);
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_is_named_once_or_belongs_to_families_of_one_name() {
        for (at, family) in FAMILIES.iter().enumerate() {
            assert!(!family.body.is_empty() && !family.prefixes.is_empty(), "{}", family.name);
            for prefix in family.prefixes {
                assert!(prefix.is_ascii() && prefix.len() >= 2, "{prefix}");
                let others = FAMILIES[at + 1..].iter().filter(|other| other.prefixes.contains(prefix));
                assert!(others.into_iter().all(|other| other.name == family.name), "{prefix}");
            }
        }
    }
}
