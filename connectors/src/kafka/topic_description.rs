//! What a broker says of a topic: the id of its creation, and what this client may do with it.
//!
//! Only the id tells a topic that was deleted and made anew from the old one: name, partitions and even offsets may be the
//! same. Permissions are told without reading or writing anything. The `rdkafka` crate has no call for either, librdkafka
//! does. This is the only unsafe code of the crate.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char},
    ptr, slice,
    time::Duration,
};

use rdkafka::{bindings as native, consumer::Consumer as _};

use super::client::Consumer;

/// A topic as the broker describes it.
#[derive(Debug, Clone)]
pub(super) struct Description {
    /// `None` if the broker has none: before version 2.8.
    pub(super) id: Option<String>,
    /// `None` if they were not asked for, or the broker does not tell.
    pub(super) permissions: Option<Permissions>,
}

/// What a client may do with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// Fetch records.
    pub read: bool,
    /// Append records.
    pub write: bool,
}

/// Asks for a topic's description; `None` if there is no answer in time, or no such topic.
pub(super) fn describe(
    consumer: &Consumer,
    topic: &str,
    with_permissions: bool,
    timeout: Duration,
) -> Option<Description> {
    let name = CString::new(topic).ok()?;
    let milliseconds = timeout.as_millis().min(i32::MAX as u128) as i32;
    let client = consumer.client().native_ptr();
    let mut names = [name.as_ptr()];
    // SAFETY: The client lives as long as `consumer`, which is borrowed. Each object that is made here is checked for null
    // before it is used where librdkafka may return null, and is destroyed once, after its last use: the result belongs to
    // the event, the event to nobody else. `name` outlives the collection, which copies it. librdkafka allows admin
    // requests on any client and from any thread; the answer goes to a queue of our own, so that no poll of the consumer
    // can take it.
    unsafe {
        let queue = native::rd_kafka_queue_new(client);
        let options = native::rd_kafka_AdminOptions_new(
            client,
            native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
        );
        native::rd_kafka_AdminOptions_set_request_timeout(
            options,
            milliseconds.max(1),
            ptr::null_mut(),
            0,
        );
        // Returns an error object only for other kinds of requests.
        native::rd_kafka_AdminOptions_set_include_authorized_operations(
            options,
            with_permissions.into(),
        );
        let topics =
            native::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        native::rd_kafka_DescribeTopics(client, topics, options, queue);
        let event = native::rd_kafka_queue_poll(queue, milliseconds);
        let description = description_in(event);
        if !event.is_null() {
            native::rd_kafka_event_destroy(event);
        }
        native::rd_kafka_TopicCollection_destroy(topics);
        native::rd_kafka_AdminOptions_destroy(options);
        native::rd_kafka_queue_destroy(queue);
        description
    }
}

/// The description in the answer to a request for one topic.
///
/// # Safety
///
/// `event` is null or a live event of librdkafka.
unsafe fn description_in(event: *mut native::rd_kafka_event_t) -> Option<Description> {
    if event.is_null() {
        return None;
    }
    // SAFETY: The event is alive by this function's contract. What is read from it belongs to it, is checked for null, and
    // is copied before the function returns.
    unsafe {
        let result = native::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return None;
        }
        let mut count = 0;
        let descriptions = native::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if descriptions.is_null() || count == 0 {
            return None;
        }
        let description = *descriptions;
        let error = native::rd_kafka_TopicDescription_error(description);
        if !error.is_null()
            && native::rd_kafka_error_code(error)
                != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            return None;
        }
        Some(Description {
            id: id_of(description),
            permissions: permissions_of(description),
        })
    }
}

/// # Safety
///
/// `description` is a live description of librdkafka.
unsafe fn id_of(description: *const native::rd_kafka_TopicDescription_t) -> Option<String> {
    // SAFETY: The description is alive by this function's contract. What is read from it belongs to it, is checked for
    // null, and is copied before the function returns.
    unsafe {
        let id = native::rd_kafka_TopicDescription_topic_id(description);
        if id.is_null() || is_zero(id) {
            return None;
        }
        let text: *const c_char = native::rd_kafka_Uuid_base64str(id);
        if text.is_null() {
            return None;
        }
        let text = CStr::from_ptr(text).to_str().ok()?;
        Some(text.to_owned())
    }
}

/// # Safety
///
/// `description` is a live description of librdkafka.
unsafe fn permissions_of(
    description: *const native::rd_kafka_TopicDescription_t,
) -> Option<Permissions> {
    use native::rd_kafka_AclOperation_t as Operation;
    let mut count = 0;
    // SAFETY: The description is alive by this function's contract. The operations belong to it; there are `count` of them
    // unless the pointer is null, and they are read before the function returns.
    let operations = unsafe {
        let first =
            native::rd_kafka_TopicDescription_authorized_operations(description, &raw mut count);
        if first.is_null() {
            return None;
        }
        slice::from_raw_parts(first, count)
    };
    let may = |operation| {
        operations.contains(&operation)
            || operations.contains(&Operation::RD_KAFKA_ACL_OPERATION_ALL)
    };
    Some(Permissions {
        read: may(Operation::RD_KAFKA_ACL_OPERATION_READ),
        write: may(Operation::RD_KAFKA_ACL_OPERATION_WRITE),
    })
}

/// # Safety
///
/// `id` is a live id of librdkafka.
unsafe fn is_zero(id: *const native::rd_kafka_Uuid_t) -> bool {
    // SAFETY: The id is alive by this function's contract.
    unsafe {
        native::rd_kafka_Uuid_most_significant_bits(id) == 0
            && native::rd_kafka_Uuid_least_significant_bits(id) == 0
    }
}
