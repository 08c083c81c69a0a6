//! Certificates of an authority of the test's own.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    date_time_ymd,
};

/// A certificate with those between it and its authority, and its private key, in PEM form.
#[derive(Clone)]
pub struct Pair {
    /// What is shown.
    pub certificate: String,
    /// What proves that it is ours.
    pub key: String,
}

/// The key is a key, although one of a test.
impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.certificate)
    }
}

/// Signs certificates. No program trusts it by default.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Another one each time.
    #[must_use]
    pub fn new() -> Authority {
        let mut params = named("authority of a test", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, key()).expect("a certificate can be made"))
    }

    /// The certificate to trust, in PEM form.
    #[must_use]
    pub fn pem(&self) -> String {
        let certificate: &rcgen::Certificate = self.0.as_ref();
        certificate.pem()
    }

    /// For a server with this name or address, or for a client.
    #[must_use]
    pub fn pair(&self, name: &str) -> Pair {
        self.signed(&named(name, &[name]))
    }

    /// The same for one whose time is over.
    #[must_use]
    pub fn expired(&self, name: &str) -> Pair {
        let mut params = named(name, &[name]);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.signed(&params)
    }

    fn signed(&self, params: &CertificateParams) -> Pair {
        let key = key();
        let signed = params.signed_by(&key, &self.0);
        Pair {
            certificate: signed.expect("a certificate can be signed").pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

fn named(common: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("a name that a certificate can carry");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the system has random numbers")
}
