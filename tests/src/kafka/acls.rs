//! Access control: the `rdkafka` crate has no call that creates ACLs, librdkafka does.
#![allow(unsafe_code)]

use std::{ffi::CString, ptr, time::Duration};

use anyhow::{Context, ensure};
use rdkafka::{
    bindings as native,
    consumer::{BaseConsumer, Consumer},
};

use super::Kafka;

/// What a user is allowed to do with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// See that it is there.
    Describe,
    /// Fetch records.
    Read,
    /// Append records.
    Write,
}

const TIMEOUT: Duration = Duration::from_secs(30);

impl Kafka {
    /// Allows a user of the secure listener to do something with a topic. From the first ACL of a topic on, everything
    /// else with it is forbidden to all but the users of the plaintext listener.
    pub fn allow(&self, user: &str, topic: &str, operation: Operation) -> anyhow::Result<()> {
        use native::{
            rd_kafka_AclOperation_t as Native, rd_kafka_AclPermissionType_t as Permission,
            rd_kafka_ResourcePatternType_t as Pattern, rd_kafka_ResourceType_t as Resource,
        };
        let operation = match operation {
            Operation::Describe => Native::RD_KAFKA_ACL_OPERATION_DESCRIBE,
            Operation::Read => Native::RD_KAFKA_ACL_OPERATION_READ,
            Operation::Write => Native::RD_KAFKA_ACL_OPERATION_WRITE,
        };
        let consumer: BaseConsumer = self.config().create()?;
        let client = consumer.client().native_ptr();
        let topic = CString::new(topic)?;
        let principal = CString::new(format!("User:{user}"))?;
        let milliseconds = TIMEOUT.as_millis() as i32;
        // SAFETY: The client lives as long as `consumer`. The texts outlive the binding, which copies them. Each object is
        // made here, checked for null where librdkafka may return null, and destroyed once.
        unsafe {
            let binding = native::rd_kafka_AclBinding_new(
                Resource::RD_KAFKA_RESOURCE_TOPIC,
                topic.as_ptr(),
                Pattern::RD_KAFKA_RESOURCE_PATTERN_LITERAL,
                principal.as_ptr(),
                c"*".as_ptr(),
                operation,
                Permission::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW,
                ptr::null_mut(),
                0,
            );
            ensure!(!binding.is_null(), "librdkafka refuses the ACL");
            let queue = native::rd_kafka_queue_new(client);
            let mut bindings = [binding];
            native::rd_kafka_CreateAcls(
                client,
                bindings.as_mut_ptr(),
                bindings.len(),
                ptr::null(),
                queue,
            );
            let event = native::rd_kafka_queue_poll(queue, milliseconds);
            let created = !event.is_null()
                && native::rd_kafka_event_error(event)
                    == native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
            if !event.is_null() {
                native::rd_kafka_event_destroy(event);
            }
            native::rd_kafka_AclBinding_destroy(binding);
            native::rd_kafka_queue_destroy(queue);
            created.then_some(()).context("the broker made no ACL")
        }
    }
}
