//! What the connections' tasks ask for and report.

use std::sync::Arc;
use std::task::Waker;

use super::event::Message;
use super::hub::{Hub, Turn};
use super::notice::Notice;
use crate::config::{NodeAddress, WhenDown};
use crate::engine::dialler::{dialler, primary_dialler};
use crate::engine::lane::{Dial, DialError};
use crate::error::ErrorKind;
use crate::net::connect::Purpose;
use crate::proto::retry::Refresh;
use crate::proto::subscriptions::Reroute;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

impl Hub {
    /// How connections to the node are made.
    pub(super) fn dial(&self, node: &NodeAddress) -> Box<dyn Dial> {
        match &self.finder {
            Some(finder) => primary_dialler(finder, Purpose::PubSub, &self.lane_options),
            None => dialler(&self.config, node, Purpose::PubSub, &self.lane_options),
        }
    }

    pub(super) fn connected(self: &Arc<Self>, node: &NodeAddress) {
        self.change(|state, _| state.subscriptions.connected(node));
    }

    pub(super) fn disconnected(self: &Arc<Self>, node: &NodeAddress, reason: &ErrorKind) {
        tracing::debug!(%node, %reason, "a connection with subscriptions is lost");
        self.change(|state, _| {
            state.problem = Some(reason.to_string().into());
            state.subscriptions.disconnected(node);
        });
        self.suspect();
    }

    /// The connection was closed since nothing was wanted.
    pub(super) fn closed(self: &Arc<Self>, node: &NodeAddress) {
        self.change(|state, _| state.subscriptions.disconnected(node));
    }

    /// No connection could be made. Ordinary channels go elsewhere, if there is another node; who waits is told if
    /// waiting will not help.
    pub(super) fn unreachable(self: &Arc<Self>, node: &NodeAddress, error: &DialError) {
        tracing::debug!(%node, reason = &*error.text, "no connection for subscriptions");
        let is_told = error.is_final || (self.config.when_down == WhenDown::FailFast && self.cluster.is_none());
        self.change(|state, out| {
            state.problem = Some(error.text.clone());
            if is_told {
                for (id, topic) in state.subscriptions.awaited_at(node) {
                    let inbox = state.inboxes.get(&id);
                    inbox
                        .into_iter()
                        .for_each(|inbox| inbox.fail(topic.clone(), ErrorKind::Connect(error.text.clone())));
                }
            }
            if state.home.as_ref() == Some(node) {
                state.avoided = state.home.take();
            }
            self.reroute(state, Reroute::Missing, out);
        });
        self.staff_if_short();
        self.suspect();
    }

    /// The topology is doubtful.
    fn suspect(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.want_refresh(Refresh::Urgent);
        }
        self.trouble.notify_one();
    }

    pub(super) fn is_needed(&self, node: &NodeAddress) -> bool {
        self.state.lock().subscriptions.is_needed(node)
    }

    /// Ends the node's connection, unless it is needed.
    pub(super) fn release(&self, node: &NodeAddress) -> bool {
        let mut state = self.state.lock();
        let is_released = state.subscriptions.release(node);
        if is_released {
            state.links.remove(node);
        }
        is_released
    }

    /// Appends what is to be sent now; nothing if the connection is held up.
    pub(super) fn turn(&self, node: &NodeAddress, out: &mut Vec<u8>, is_held_up: bool) -> Turn {
        let mut state = self.state.lock();
        if !is_held_up && let Some(orders) = state.subscriptions.next_round(node) {
            orders.iter().for_each(|order| order.encode(out));
            out.extend_from_slice(PING);
        }
        Turn {
            is_waiting: state.subscriptions.is_waiting(node),
            failures: state.subscriptions.failures(node),
            is_needed: state.subscriptions.is_needed(node),
        }
    }

    /// Appends a `PING`, unless an answer is due.
    pub(super) fn ping(&self, node: &NodeAddress, out: &mut Vec<u8>) {
        if self.state.lock().subscriptions.ping(node) {
            out.extend_from_slice(PING);
        }
    }

    pub(super) fn retry(&self, node: &NodeAddress) {
        self.state.lock().subscriptions.retry(node);
    }

    /// Takes what the node says, in order.
    pub(super) fn receive(self: &Arc<Self>, node: &NodeAddress, notices: &mut Vec<Notice>) -> Result<(), ErrorKind> {
        let (mut out, mut wakers, mut has_moved) = (Vec::new(), Vec::new(), false);
        let mut result = Ok(());
        {
            let mut state = self.state.lock();
            for notice in notices.drain(..) {
                if matches!(notice, Notice::Subscribed(_)) {
                    state.problem = None;
                }
                let subscriptions = &mut state.subscriptions;
                let mut message = None;
                let taken = match notice {
                    Notice::Message { topic, channel, payload } => {
                        subscriptions.message(node, &topic, &mut out);
                        message = Some(match channel {
                            Some(channel) => Message { channel, pattern: Some(topic.name), payload },
                            None => Message { channel: topic.name, pattern: None, payload },
                        });
                        Ok(())
                    }
                    Notice::Subscribed(topic) => {
                        subscriptions.subscribed(node, &topic, &mut out);
                        Ok(())
                    }
                    Notice::Unsubscribed(topic) => {
                        subscriptions.unsubscribed(node, &topic, &mut out);
                        Ok(())
                    }
                    Notice::Pong => subscriptions.pong(node, &mut out),
                    Notice::Error(error) => subscriptions.failed(node, &error, &mut out),
                    Notice::Other => Ok(()),
                };
                has_moved |= self.apply(&mut state, &mut out, message.as_ref(), Some(node), &mut wakers);
                if let Err(desync) = taken {
                    result = Err(ErrorKind::Protocol(desync.0.into()));
                    break;
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        if has_moved {
            self.change(|state, out| self.reroute(state, Reroute::Missing, out));
            self.staff_if_short();
            self.trouble.notify_one();
        }
        result
    }
}
