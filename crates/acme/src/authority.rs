//! One authority: its account, orders and renewal windows.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType, ExternalAccountKey,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use ring::digest;
use tokio::sync::Mutex;

use crate::certificate::{Facts, Pair};
use crate::challenge::{Answers, Given, Token, tls_alpn};
use crate::error::OrderError;
use crate::https::{Https, RequestError};
use crate::name::Name;
use crate::options::{AuthoritySettings, Challenges, ExternalAccount, Offered};
use crate::renewal::{Suggestion, Window};
use crate::show::{Certificates, Shown};
use crate::storage::{Item, LEASE_KEPT_EVERY, Storage, StorageError};

/// How long an order may take, validation included.
const ORDER_TIME: Duration = Duration::from_secs(180);
/// The first pause between two looks at an order; it grows by half each time.
const POLL: Duration = Duration::from_millis(100);
/// How often it is looked whether another gateway has made the account.
const ACCOUNT_POLL: Duration = Duration::from_millis(250);
/// How long another gateway may take to make it.
const ACCOUNT_TIME: Duration = Duration::from_secs(60);
/// Most bytes of the file of a MAC key.
const MAX_KEY_FILE: u64 = 4096;

/// One authority.
pub(crate) struct Authority {
    settings: AuthoritySettings,
    email: Option<String>,
    http: Https,
    host: String,
    account: Mutex<Option<Account>>,
}

/// What an order is made with.
pub(crate) struct Means {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) answers: Answers,
    pub(crate) certificates: Arc<dyn Certificates>,
    pub(crate) challenges: Challenges,
}

/// One order.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a Name,
    /// The certificate that it replaces, if it came from this authority.
    pub(crate) replaces: Option<&'a Facts>,
    /// How often it was tried: challenges alternate.
    pub(crate) attempt: u64,
}

impl Authority {
    pub(crate) fn new(settings: AuthoritySettings, email: Option<String>) -> io::Result<Self> {
        let http = Https::new(settings.root.as_deref())?;
        let host = settings.directory.split('/').nth(2).unwrap_or(&settings.directory).to_owned();
        Ok(Self { settings, email, http, host, account: Mutex::default() })
    }

    pub(crate) fn directory(&self) -> &str {
        &self.settings.directory
    }

    /// Gets a certificate.
    ///
    /// # Cancel safety
    /// Dropping it leaves an order at the authority, which ends there by itself.
    pub(crate) async fn order(&self, wanted: Wanted<'_>, means: &Means) -> Result<Pair, OrderError> {
        let account = self.account(means).await?;
        let ordered = tokio::time::timeout(ORDER_TIME, self.order_with(&account, wanted, means)).await;
        let ordered = ordered.unwrap_or_else(|_| {
            Err(OrderError::Timeout { authority: self.host.clone(), seconds: ORDER_TIME.as_secs() })
        });
        if ordered.as_ref().is_err_and(OrderError::is_unknown_account) {
            self.forget(&account, means).await?;
        }
        ordered
    }

    async fn order_with(&self, account: &Account, wanted: Wanted<'_>, means: &Means) -> Result<Pair, OrderError> {
        let failed = |cause| self.failed(cause);
        let identifiers = [Identifier::Dns(wanted.name.as_str().to_owned())];
        let mut order = match wanted.replaces.and_then(renewal_id) {
            // A replacement is free of some limits (RFC 9773 §5).
            Some(id) => match account.new_order(&NewOrder::new(&identifiers).replaces(id)).await {
                Err(cause) if is_about_replacement(&cause) => {
                    account.new_order(&NewOrder::new(&identifiers)).await.map_err(failed)?
                }
                ordered => ordered.map_err(failed)?,
            },
            None => account.new_order(&NewOrder::new(&identifiers)).await.map_err(failed)?,
        };
        let challenges = by_preference(means.challenges, wanted.attempt);
        let policy = RetryPolicy::new().initial_delay(POLL).backoff(1.5).timeout(ORDER_TIME);
        let mut given = Vec::new();
        let answered = self.answer(&mut order, wanted.name, &challenges, means, &mut given).await;
        let challenge = given.first().map_or("an earlier validation", Answered::label);
        let validated = match answered {
            Ok(()) if order.state().status == OrderStatus::Ready => Ok(()),
            Ok(()) => match order.poll_ready(&policy).await.map_err(failed) {
                Ok(OrderStatus::Ready) => Ok(()),
                Ok(_) => Err(self.invalid(&mut order, challenge).await),
                // The order's own error says less than its challenges.
                Err(e) if order.state().status == OrderStatus::Invalid => {
                    tracing::debug!(authority = self.host, "{e}");
                    Err(self.invalid(&mut order, challenge).await)
                }
                Err(e) => Err(e),
            },
            Err(e) => Err(e),
        };
        for answered in given {
            answered.withdraw(means).await?;
        }
        validated?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![wanted.name.as_str().to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        order.finalize_csr(params.serialize_request(&key)?.der()).await.map_err(failed)?;
        let chain = order.poll_certificate(&policy).await.map_err(failed)?;
        let unusable = |cause| OrderError::Unusable { authority: self.host.clone(), cause };
        let pair = Pair::from_pem(&chain, &key.serialize_pem()).map_err(unusable)?;
        Ok(Pair { issued_by: Some(self.settings.directory.clone()), ..pair })
    }

    /// Has every authorization of the order answered, and the authority look at it.
    async fn answer(
        &self,
        order: &mut Order,
        name: &Name,
        challenges: &[ChallengeType],
        means: &Means,
        given: &mut Vec<Answered>,
    ) -> Result<(), OrderError> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|cause| self.failed(cause))?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let offered: Vec<String> = authorization.challenges.iter().map(|one| label(&one.r#type)).collect();
            let fits = |wanted: &&ChallengeType| authorization.challenges.iter().any(|one| one.r#type == **wanted);
            let chosen = challenges.iter().find(fits).cloned();
            let none = || OrderError::NoChallenge { authority: self.host.clone(), offered: offered.join(", ") };
            let mut challenge = chosen.and_then(|kind| authorization.challenge(kind)).ok_or_else(none)?;
            let key = challenge.key_authorization();
            given.push(match challenge.r#type {
                ChallengeType::Http01 => {
                    let token = Token::of(&challenge.token).ok_or_else(none)?;
                    Answered::http(token, key.as_str(), means).await?
                }
                _ => {
                    let pair = tls_alpn(name, key.digest().as_ref())?;
                    Answered::TlsAlpn(means.certificates.challenge(name, &pair))
                }
            });
            challenge.set_ready().await.map_err(|cause| self.failed(cause))?;
        }
        Ok(())
    }

    /// Why the order has become invalid: its challenges say.
    async fn invalid(&self, order: &mut Order, challenge: &'static str) -> OrderError {
        let mut reasons = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if let Ok(state) = authorization.refresh().await {
                let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
                reasons.extend(errors.map(|error| error.detail.clone().unwrap_or_else(|| error.to_string())));
            }
        }
        let reason = if reasons.is_empty() { "it gives no reason".to_owned() } else { reasons.join("; ") };
        OrderError::Invalid { authority: self.host.clone(), challenge, reason }
    }

    /// When a certificate should be renewed.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub(crate) async fn window(&self, facts: &Facts, means: &Means) -> Suggestion {
        let Some(id) = renewal_id(facts) else { return Suggestion::Unsupported };
        let Ok(account) = self.account(means).await else { return Suggestion::Failed };
        match account.renewal_info(&id).await {
            Ok((info, again_in)) => {
                let window = info.suggested_window;
                let window = Window { start: window.start.into(), end: window.end.into() };
                Suggestion::Window { window, again_in }
            }
            Err(instant_acme::Error::Unsupported(_)) => Suggestion::Unsupported,
            Err(e) => {
                tracing::debug!(authority = self.host, "no renewal window: {e}");
                Suggestion::Failed
            }
        }
    }

    /// The account: of this process, of the storage, or a new one. Gateways with one storage have one.
    async fn account(&self, means: &Means) -> Result<Account, OrderError> {
        let mut known = self.account.lock().await;
        if let Some(account) = &*known {
            return Ok(account.clone());
        }
        let item = self.account_item();
        let begun = tokio::time::Instant::now();
        let account = loop {
            if let Some(account) = self.stored_account(&item, means).await? {
                break account;
            }
            match means.storage.lease(&item).await? {
                Some(mut lease) => {
                    // Its last holder may have made it since.
                    let made = match self.stored_account(&item, means).await? {
                        Some(account) => Ok(account),
                        None => kept(&mut *lease, self.make_account(&item, means)).await,
                    };
                    lease.release().await?;
                    break made?;
                }
                None if begun.elapsed() < ACCOUNT_TIME => tokio::time::sleep(ACCOUNT_POLL).await,
                None => {
                    let seconds = ACCOUNT_TIME.as_secs();
                    return Err(OrderError::Timeout { authority: self.host.clone(), seconds });
                }
            }
        };
        *known = Some(account.clone());
        Ok(account)
    }

    async fn stored_account(&self, item: &Item, means: &Means) -> Result<Option<Account>, OrderError> {
        let Some(stored) = means.storage.read(item).await? else { return Ok(None) };
        let corrupt = |cause: &dyn std::error::Error| {
            tracing::warn!(authority = self.host, "the stored ACME account is corrupt, so a new one is made: {cause}");
        };
        let credentials = match serde_json::from_slice::<AccountCredentials>(&stored) {
            Ok(credentials) => credentials,
            Err(cause) => {
                corrupt(&cause);
                return Ok(None);
            }
        };
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        match builder.from_credentials(credentials).await {
            Ok(account) => Ok(Some(account)),
            Err(cause @ (instant_acme::Error::KeyRejected | instant_acme::Error::Crypto)) => {
                corrupt(&cause);
                Ok(None)
            }
            Err(cause) => Err(self.failed(cause)),
        }
    }

    /// Forgets an account that the authority does not know, unless another gateway has stored a new one since.
    async fn forget(&self, account: &Account, means: &Means) -> Result<(), StorageError> {
        *self.account.lock().await = None;
        let item = self.account_item();
        let stored = means.storage.read(&item).await?.unwrap_or_default();
        let stored = serde_json::from_slice::<serde_json::Value>(&stored).unwrap_or_default();
        match stored.get("id").and_then(serde_json::Value::as_str) == Some(account.id()) {
            true => means.storage.remove(&item).await,
            false => Ok(()),
        }
    }

    async fn make_account(&self, item: &Item, means: &Means) -> Result<Account, OrderError> {
        let contact = self.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let account = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let external = self.settings.external_account.as_ref().map(external_key).transpose()?;
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let made = builder.create(&account, self.settings.directory.clone(), external.as_ref()).await;
        let (account, credentials) = made.map_err(|cause| self.failed(cause))?;
        let stored = serde_json::to_vec(&credentials).map_err(|cause| self.failed(cause.into()))?;
        means.storage.write(item, stored).await?;
        tracing::info!(authority = self.host, account = account.id(), "an ACME account was made");
        Ok(account)
    }

    /// One for each directory, owner and external account.
    fn account_item(&self) -> Item {
        let kid = self.settings.external_account.as_ref().map(|account| account.kid.as_str());
        let owner = [self.directory(), self.email.as_deref().unwrap_or_default(), kid.unwrap_or_default()].join("\n");
        let digest = digest::digest(&digest::SHA256, owner.as_bytes());
        Item::Account(digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    fn failed(&self, cause: instant_acme::Error) -> OrderError {
        OrderError::Authority { authority: self.host.clone(), cause, retry_after: self.http.take_retry_after() }
    }
}

/// Does something for which a lease is held.
pub(crate) async fn kept<T>(lease: &mut dyn crate::storage::Lease, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        match tokio::time::timeout(LEASE_KEPT_EVERY, &mut work).await {
            Ok(done) => return done,
            Err(_) => {
                if let Err(e) = lease.keep().await {
                    tracing::warn!("a lease could not be kept: {e}");
                }
            }
        }
    }
}

/// A validation that is answered until this is dropped.
enum Answered {
    Http(Item, Given),
    TlsAlpn(#[expect(dead_code, reason = "it is shown for as long as it is held")] Shown),
}

impl Answered {
    /// In this process, and in the storage: the authority may ask another gateway.
    async fn http(token: Token, answer: &str, means: &Means) -> Result<Self, StorageError> {
        let item = Item::Challenge(token.clone());
        let given = means.answers.give(token, answer).ok_or(StorageError::Full)?;
        means.storage.write(&item, answer.as_bytes().to_vec()).await?;
        Ok(Self::Http(item, given))
    }

    async fn withdraw(self, means: &Means) -> Result<(), StorageError> {
        match self {
            Self::Http(item, given) => {
                drop(given);
                means.storage.remove(&item).await
            }
            Self::TlsAlpn(_) => Ok(()),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Http(..) => "HTTP-01",
            Self::TlsAlpn(_) => "TLS-ALPN-01",
        }
    }
}

fn label(kind: &ChallengeType) -> String {
    match kind {
        ChallengeType::Http01 => "HTTP-01".to_owned(),
        ChallengeType::TlsAlpn01 => "TLS-ALPN-01".to_owned(),
        ChallengeType::Dns01 => "DNS-01".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Those that are offered, the one that failed last behind the other.
fn by_preference(offered: Challenges, attempt: u64) -> Vec<ChallengeType> {
    let mut all = vec![(offered.http, ChallengeType::Http01), (offered.tls_alpn, ChallengeType::TlsAlpn01)];
    all.retain(|(offered, _)| *offered != Offered::No);
    all.sort_by_key(|(offered, _)| *offered != Offered::First);
    if attempt % 2 == 1 {
        all.reverse();
    }
    all.into_iter().map(|(_, kind)| kind).collect()
}

/// Whether an authority refuses an order for what it replaces: it was replaced already, or it is not known there.
fn is_about_replacement(cause: &instant_acme::Error) -> bool {
    match cause {
        instant_acme::Error::Api(problem) => !problem.status.is_some_and(|status| status == 429 || status >= 500),
        // Its answer does not repeat what is replaced. The other errors of this kind are the connection's.
        instant_acme::Error::Other(why) => !why.is::<RequestError>(),
        instant_acme::Error::Unsupported(_) => true,
        _ => false,
    }
}

fn renewal_id(facts: &Facts) -> Option<CertificateIdentifier<'static>> {
    let id = facts.renewal_id.as_ref()?;
    Some(CertificateIdentifier::new((&id.authority_key[..]).into(), (&id.serial[..]).into()).into_owned())
}

/// The MAC key; only the gateway's user may read its file.
fn external_key(account: &ExternalAccount) -> Result<ExternalAccountKey, OrderError> {
    let path = account.key_file.display();
    let unusable = |why: String| OrderError::ExternalAccount(format!("{path}: {why}"));
    let found = fs::metadata(&account.key_file).map_err(|e| unusable(e.to_string()))?;
    if found.mode() & 0o007 != 0 {
        return Err(unusable(format!("other users may read it: chmod 600 {path}")));
    }
    if found.len() > MAX_KEY_FILE {
        return Err(unusable(format!("it has more than {MAX_KEY_FILE} bytes")));
    }
    let text = fs::read_to_string(&account.key_file).map_err(|e| unusable(e.to_string()))?;
    let key = base64url(text.trim()).ok_or_else(|| unusable("it is not base64url (RFC 4648 §5)".to_owned()))?;
    Ok(ExternalAccountKey::new(account.kid.clone(), &key))
}

/// RFC 4648 §5, with or without padding.
fn base64url(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok().filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_alternate_when_they_fail() {
        use ChallengeType::{Http01, TlsAlpn01};
        let check = |http, tls_alpn, attempt, expected: &[ChallengeType]| {
            assert_eq!(by_preference(Challenges { http, tls_alpn }, attempt), expected);
        };
        check(Offered::First, Offered::Second, 0, &[Http01, TlsAlpn01]);
        check(Offered::First, Offered::Second, 1, &[TlsAlpn01, Http01]);
        check(Offered::Second, Offered::First, 0, &[TlsAlpn01, Http01]);
        check(Offered::First, Offered::No, 1, &[Http01]);
        check(Offered::No, Offered::No, 0, &[]);
    }

    #[test]
    fn a_mac_key_is_base64url_in_a_file_of_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("eab.key");
        let of = |text: &str, mode| {
            fs::write(&key_file, text).unwrap();
            fs::set_permissions(&key_file, fs::Permissions::from_mode(mode)).unwrap();
            let key = external_key(&ExternalAccount { kid: "kid".into(), key_file: key_file.clone() });
            key.map(drop).map_err(|e| e.to_string())
        };
        assert_eq!(of("zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n", 0o600), Ok(()));
        assert_eq!(of("_-8=", 0o640), Ok(()));
        assert!(of("_-8", 0o644).unwrap_err().contains("chmod 600"));
        assert!(of("not base64!", 0o600).unwrap_err().contains("not base64url"));
        assert!(of("", 0o600).unwrap_err().contains("not base64url"));
    }
}
