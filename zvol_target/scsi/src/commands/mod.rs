//! Commands, one module for each family.

pub(crate) mod block_pages;
pub(crate) mod capacity;
pub(crate) mod compare_and_write;
pub(crate) mod defects;
pub(crate) mod designation;
pub(crate) mod diagnostic;
pub(crate) mod inquiry;
pub(crate) mod lba_status;
pub(crate) mod log_sense;
pub(crate) mod mode_pages;
pub(crate) mod mode_select;
pub(crate) mod mode_sense;
pub(crate) mod or_write;
pub(crate) mod power;
pub(crate) mod pre_fetch;
pub(crate) mod read_write;
pub(crate) mod report_luns;
pub(crate) mod report_supported;
pub(crate) mod request_sense;
pub(crate) mod synchronize_cache;
pub(crate) mod target_port_groups;
pub(crate) mod unmap;
pub(crate) mod verify;
pub(crate) mod vital_product_data;
pub(crate) mod write_atomic;
pub(crate) mod write_same;
