//! Both sandboxes pass one suite.
