//! A schema registry's HTTP API, as Confluent's, Apicurio's and Redpanda's registries serve it.

use std::{path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use ostar_bundle::{SMALL_FILE, read_text_file};
use serde::Deserialize;

use crate::{event::settings::RegistrySettings, settings::without_credentials};

/// Most bytes of an answer.
const MAX_BYTES: u64 = 4 << 20;
/// Most schemas that one schema may refer to, directly or not.
const MOST_REFERENCES: usize = 50;

/// Asks a registry for schemas.
#[derive(Debug)]
pub(super) struct Registry {
    agent: ureq::Agent,
    url: String,
    /// Value of the header `Authorization`.
    authorization: Option<String>,
}

/// Why a schema is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RegistryError {
    /// The registry has no such schema.
    Unknown(String),
    /// The registry does not answer, or not with a schema. Try again.
    Unavailable(String),
}

/// A schema as it was registered.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Registered {
    pub(super) schema: String,
    /// Left out for Avro.
    #[serde(default = "avro", rename = "schemaType")]
    pub(super) kind: String,
    #[serde(default)]
    references: Vec<Reference>,
}

#[derive(Debug, Clone, Deserialize)]
struct Reference {
    /// What the schema that refers to it calls it.
    #[serde(default)]
    name: String,
    subject: String,
    version: i64,
}

/// A schema that another refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) schema: String,
}

fn avro() -> String {
    "AVRO".into()
}

impl Registry {
    /// Reads the secrets; does not connect.
    pub(super) fn new(settings: &RegistrySettings) -> Result<Self, String> {
        let url = settings.url.as_deref().unwrap_or_default();
        let secret = |key: &str, path: &Path| {
            let text = read_text_file(path, SMALL_FILE);
            let text = text.map_err(|error| {
                format!(
                    "events.registry.{key} is {path:?}, expected a file that can be read: {error}"
                )
            });
            text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
        };
        let authorization = match (&settings.token_file, &settings.username) {
            (Some(path), _) => Some(format!("Bearer {}", secret("token_file", path)?)),
            (None, Some(username)) => {
                let password = match &settings.password_file {
                    Some(path) => secret("password_file", path)?,
                    None => String::new(),
                };
                let encoded = STANDARD.encode(format!("{username}:{password}"));
                Some(format!("Basic {encoded}"))
            }
            (None, None) => None,
        };
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(settings.timeout.get()))
            .user_agent("ostard");
        if let Some(path) = &settings.ca {
            let pem = secret("ca", path)?;
            let authorities = ureq::tls::parse_pem(pem.as_bytes())
                .filter_map(|item| match item {
                    Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                })
                .collect::<Vec<_>>();
            if authorities.is_empty() {
                return Err(format!(
                    "events.registry.ca is {path:?}, expected certificates in PEM"
                ));
            }
            let roots = ureq::tls::RootCerts::Specific(std::sync::Arc::new(authorities));
            let tls = ureq::tls::TlsConfig::builder().root_certs(roots).build();
            config = config.tls_config(tls);
        }
        Ok(Self {
            agent: config.build().new_agent(),
            url: url.trim_end_matches('/').to_owned(),
            authorization,
        })
    }

    /// The schema with this id, and those that it refers to, the inner ones first.
    pub(super) fn schema(&self, id: u32) -> Result<(Registered, Vec<Named>), RegistryError> {
        let registered: Registered = self.get(&format!("/schemas/ids/{id}"))?;
        let mut found = Vec::new();
        let mut open: Vec<Reference> = registered.references.clone();
        while let Some(reference) = open.pop() {
            if found.len() == MOST_REFERENCES {
                let problem = format!("schema {id} refers to more than {MOST_REFERENCES} others");
                return Err(RegistryError::Unknown(problem));
            }
            let Reference {
                name,
                subject,
                version,
            } = reference;
            let path = format!("/subjects/{}/versions/{version}", encoded(&subject));
            let inner: Registered = self.get(&path)?;
            found.push(Named {
                name,
                schema: inner.schema,
            });
            open.extend(inner.references);
        }
        found.reverse();
        Ok((registered, found))
    }

    fn get<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, RegistryError> {
        let url = format!("{}{path}", self.url);
        // ureq may quote the address, too.
        let shown = |text: String| without_credentials(&text).into_owned();
        let unavailable =
            |problem: String| RegistryError::Unavailable(shown(format!("{url}: {problem}")));
        let mut request = self.agent.get(&url);
        let accepted = "application/vnd.schemaregistry.v1+json, application/json";
        request = request.header("Accept", accepted);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut answer = request
            .call()
            .map_err(|error| unavailable(error.to_string()))?;
        match answer.status().as_u16() {
            200 => (),
            404 => return Err(RegistryError::Unknown(shown(format!("{url} answered 404")))),
            status => return Err(unavailable(format!("answered {status}"))),
        }
        let body = answer.body_mut().with_config().limit(MAX_BYTES);
        let text = body
            .read_to_string()
            .map_err(|error| unavailable(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| unavailable(format!("is no schema: {error}")))
    }
}

/// A subject as part of a path.
fn encoded(subject: &str) -> String {
    let mut encoded = String::new();
    for byte in subject.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(byte.into());
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// How long the first retry waits; each further one twice as long, up to ten seconds.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(250);
