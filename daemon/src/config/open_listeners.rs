//! Listeners that anybody may call who reaches them.

use std::{fmt, net::SocketAddr};

use super::Config;

/// A listener beyond this machine that asks callers neither for a token nor for a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenListener {
    /// Key of the configuration.
    pub(crate) key: &'static str,
    pub(crate) address: SocketAddr,
    /// What else than a token would close it.
    certificates: &'static str,
}

/// Whether only this machine can reach the address.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    // ::ffff:127.0.0.1, too.
    address.ip().to_canonical().is_loopback()
}

impl Config {
    /// The address of each listener, by its key; `None` if it is off.
    pub(crate) fn addresses(&self) -> [(&'static str, Option<SocketAddr>); 3] {
        [
            ("grpc.listen", Some(self.grpc.listen)),
            ("http.listen", Some(self.http.listen)),
            ("grpc.control_listen", self.grpc.control_listen),
        ]
    }

    /// Those that answer predictions and the state. There is no open one for orders: the configuration is refused.
    pub(crate) fn open_listeners(&self) -> Vec<OpenListener> {
        self.open_grpc()
            .into_iter()
            .chain(self.open_http())
            .collect()
    }

    /// `None` if `grpc.listen` is not open.
    pub(crate) fn open_grpc(&self) -> Option<OpenListener> {
        let certificates = self.tls.client_ca.is_some();
        self.open(
            "grpc.listen",
            self.grpc.listen,
            certificates,
            "tls.client_ca",
        )
    }

    /// `None` if `http.listen` is not open.
    pub(crate) fn open_http(&self) -> Option<OpenListener> {
        let certificates = self.tls.client_ca.is_some() && self.tls.http_client_certificates;
        let keys = "tls.client_ca with tls.http_client_certificates";
        self.open("http.listen", self.http.listen, certificates, keys)
    }

    fn open(
        &self,
        key: &'static str,
        address: SocketAddr,
        asks_for_certificates: bool,
        certificates: &'static str,
    ) -> Option<OpenListener> {
        // Tokens of the other roles do not guard predictions, the state and the page.
        let auth = &self.auth;
        let asks_for_token = auth.token_file.is_some() || auth.predict_token_file.is_some();
        let is_open = !is_loopback(address) && !asks_for_token && !asks_for_certificates;
        is_open.then_some(OpenListener {
            key,
            address,
            certificates,
        })
    }
}

// === impl OpenListener ===

impl OpenListener {
    /// Without the key.
    pub(crate) fn problem(&self) -> String {
        let (address, certificates) = (self.address, self.certificates);
        format!(
            "{address} is open: whoever reaches it may ask for predictions and the state, and it shows no ids of events; set \
             auth.token_file, auth.predict_token_file or {certificates}, or listen on 127.0.0.1"
        )
    }
}

impl fmt::Display for OpenListener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.key, self.problem())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(change: impl FnOnce(&mut Config)) -> Vec<&'static str> {
        let mut settings = Config::default();
        settings.grpc.listen = "0.0.0.0:50051".parse().unwrap();
        settings.http.listen = "[::]:8080".parse().unwrap();
        change(&mut settings);
        let open = settings.open_listeners();
        open.iter().map(|listener| listener.key).collect()
    }

    #[test]
    fn a_listener_is_open_beyond_the_loopback_if_nobody_is_asked_who_they_are() {
        assert_eq!(Config::default().open_listeners(), []);
        assert_eq!(keys(|_| ()), ["grpc.listen", "http.listen"]);
        for address in [
            "127.0.0.1:1",
            "127.0.0.2:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            let address = address.parse().unwrap();
            assert_eq!(
                keys(|settings| settings.grpc.listen = address),
                ["http.listen"]
            );
        }
        for address in ["10.0.0.7:1", "[fe80::1]:1", "[::ffff:10.0.0.7]:1"] {
            let address = address.parse().unwrap();
            assert_eq!(
                keys(|settings| settings.grpc.listen = address).len(),
                2,
                "{address}"
            );
        }
        let file = || Some("token".into());
        assert_eq!(keys(|settings| settings.auth.token_file = file()), [""; 0]);
        assert_eq!(
            keys(|settings| settings.auth.predict_token_file = file()),
            [""; 0]
        );
        let others = |settings: &mut Config| {
            settings.auth.metrics_token_file = file();
            settings.auth.control_token_file = file();
            settings.tls.certificate = file();
            settings.tls.key = file();
        };
        assert_eq!(keys(others), ["grpc.listen", "http.listen"]);
        assert_eq!(
            keys(|settings| settings.tls.client_ca = file()),
            ["http.listen"]
        );
        let certificates = |settings: &mut Config| {
            settings.tls.client_ca = file();
            settings.tls.http_client_certificates = true;
        };
        assert_eq!(keys(certificates), [""; 0]);
    }
}
