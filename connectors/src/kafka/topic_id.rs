//! The id that a broker gives to each creation of a topic.
//!
//! Only the id tells a topic that was deleted and made anew from the old one: name, partitions and even offsets may be the
//! same. The `rdkafka` crate has no call for it, librdkafka does. This is the only unsafe code of the crate.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char},
    ptr,
    time::Duration,
};

use rdkafka::{bindings as native, consumer::Consumer as _};

use super::client::Consumer;

/// The topic's id, or `None` if the broker does not tell: before version 2.8, or because it does not answer in time.
pub(super) fn topic_id(consumer: &Consumer, topic: &str, timeout: Duration) -> Option<String> {
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
        let topics =
            native::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        native::rd_kafka_DescribeTopics(client, topics, options, queue);
        let event = native::rd_kafka_queue_poll(queue, milliseconds);
        let id = id_of(event);
        if !event.is_null() {
            native::rd_kafka_event_destroy(event);
        }
        native::rd_kafka_TopicCollection_destroy(topics);
        native::rd_kafka_AdminOptions_destroy(options);
        native::rd_kafka_queue_destroy(queue);
        id
    }
}

/// The id in the answer to a request for one topic.
///
/// # Safety
///
/// `event` is null or a live event of librdkafka.
unsafe fn id_of(event: *mut native::rd_kafka_event_t) -> Option<String> {
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
/// `id` is a live id of librdkafka.
unsafe fn is_zero(id: *const native::rd_kafka_Uuid_t) -> bool {
    // SAFETY: The id is alive by this function's contract.
    unsafe {
        native::rd_kafka_Uuid_most_significant_bits(id) == 0
            && native::rd_kafka_Uuid_least_significant_bits(id) == 0
    }
}
