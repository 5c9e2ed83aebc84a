//! Numbers in as many groups of seven bits as they need, the lowest first.

pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// None at the end of the bytes, and for a number of more than 64 bits.
pub fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let part = u64::from(byte & 0x7F);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        for number in [0, 1, 127, 128, 300, 1 << 40, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut at = 0;
            assert_eq!(take(&bytes, &mut at), Some(number));
            assert_eq!(at, bytes.len());
            assert_eq!(take(&bytes[..bytes.len() - 1], &mut 0), None);
        }
        assert_eq!(take(&[0xFF; 10], &mut 0), None);
    }
}
