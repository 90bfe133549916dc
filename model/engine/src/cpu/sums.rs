//! What a member's chain adds up over its rows. The engine adds the members' sums and makes the step's report of them.

/// One struct for each chain. A chain writes its own; the others hold what earlier chains left.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChainSums {
    pub(crate) critic: CriticSums,
    pub(crate) map: MapSums,
    /// Of the chains that train the target classifier.
    pub(crate) classifier: ClassifierSums,
    /// Weighted cross-entropy of the source classifier on source rows, in every chain that has one.
    pub(crate) source_cross_entropy: f64,
    pub(crate) discriminator_loss: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CriticSums {
    /// Sum of omega v(phi(z_S)).
    pub(crate) source: f64,
    /// Sum of v(z_T) / N, times the target's weight.
    pub(crate) target: f64,
    /// Sum of (gradient norm - 1)^2 over all three sets of points; not yet a mean.
    pub(crate) penalty: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MapSums {
    /// Sum of omega v(phi(z_S)).
    pub(crate) source: f64,
    /// Sum of v(z_T) / N.
    pub(crate) target: f64,
    pub(crate) transport_cost: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClassifierSums {
    pub(crate) cross_entropy: f64,
    /// Sum of the entropies of target predictions; not yet a mean.
    pub(crate) entropy: f64,
    /// The diversity term. It is taken of the mean over all rows, so every member has the whole of it.
    pub(crate) diversity: f64,
}

impl ChainSums {
    /// Adds another member's sums.
    pub(crate) fn add(&mut self, other: &Self) {
        self.critic.source += other.critic.source;
        self.critic.target += other.critic.target;
        self.critic.penalty += other.critic.penalty;
        self.map.source += other.map.source;
        self.map.target += other.map.target;
        self.map.transport_cost += other.map.transport_cost;
        self.classifier.cross_entropy += other.classifier.cross_entropy;
        self.classifier.entropy += other.classifier.entropy;
        self.classifier.diversity = other.classifier.diversity;
        self.source_cross_entropy += other.source_cross_entropy;
        self.discriminator_loss += other.discriminator_loss;
    }
}
