//! Additional sense codes in use here (SPC-5 annex F.2).

/// ADDITIONAL SENSE CODE and ADDITIONAL SENSE CODE QUALIFIER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AdditionalSense {
    pub(crate) code: u8,
    pub(crate) qualifier: u8,
}

/// Declares each code under its standard's name.
macro_rules! additional_sense {
    ($($name:ident = $code:literal / $qualifier:literal;)*) => {
        impl AdditionalSense {
            $(pub(crate) const $name: Self = Self { code: $code, qualifier: $qualifier };)*
        }
    };
}

additional_sense! {
    NO_ADDITIONAL_SENSE_INFORMATION = 0x00 / 0x00;
    LOGICAL_UNIT_NOT_READY_CAUSE_NOT_REPORTABLE = 0x04 / 0x00;
    WRITE_ERROR = 0x0c / 0x00;
    INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT = 0x0e / 0x03;
    UNRECOVERED_READ_ERROR = 0x11 / 0x00;
    PARAMETER_LIST_LENGTH_ERROR = 0x1a / 0x00;
    MISCOMPARE_DURING_VERIFY_OPERATION = 0x1d / 0x00;
    INVALID_COMMAND_OPERATION_CODE = 0x20 / 0x00;
    LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE = 0x21 / 0x00;
    INVALID_FIELD_IN_CDB = 0x24 / 0x00;
    LOGICAL_UNIT_NOT_SUPPORTED = 0x25 / 0x00;
    INVALID_FIELD_IN_PARAMETER_LIST = 0x26 / 0x00;
    INVALID_RELEASE_OF_PERSISTENT_RESERVATION = 0x26 / 0x04;
    WRITE_PROTECTED = 0x27 / 0x00;
    SPACE_ALLOCATION_FAILED_WRITE_PROTECT = 0x27 / 0x07;
    NOT_READY_TO_READY_CHANGE = 0x28 / 0x00;
    POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED = 0x29 / 0x00;
    SCSI_BUS_RESET_OCCURRED = 0x29 / 0x02;
    BUS_DEVICE_RESET_FUNCTION_OCCURRED = 0x29 / 0x03;
    MODE_PARAMETERS_CHANGED = 0x2a / 0x01;
    RESERVATIONS_PREEMPTED = 0x2a / 0x03;
    RESERVATIONS_RELEASED = 0x2a / 0x04;
    REGISTRATIONS_PREEMPTED = 0x2a / 0x05;
    CAPACITY_DATA_HAS_CHANGED = 0x2a / 0x09;
    THIN_PROVISIONING_SOFT_THRESHOLD_REACHED = 0x38 / 0x07;
    SAVING_PARAMETERS_NOT_SUPPORTED = 0x39 / 0x00;
    INQUIRY_DATA_HAS_CHANGED = 0x3f / 0x03;
    REPORTED_LUNS_DATA_HAS_CHANGED = 0x3f / 0x0e;
    INTERNAL_TARGET_FAILURE = 0x44 / 0x00;
    INVALID_MESSAGE_ERROR = 0x49 / 0x00;
    DATA_PHASE_ERROR = 0x4b / 0x00;
    INSUFFICIENT_REGISTRATION_RESOURCES = 0x55 / 0x04;
}
