//! The upper tail of the chi-squared distribution.

use std::f64::consts::PI;

/// Most terms of a series; enough for every number of tokens that a message can have.
const TERMS_MAX: usize = 1 << 26;

/// Returns the probability of a value above `x` in a chi-squared distribution with `df` degrees of
/// freedom, any positive number.
///
/// The relative error is below 1e-13 up to some ten thousand degrees; results below the smallest
/// double are 0. Takes time in proportion to the square root of `df` around the mean, and to `df`
/// below it.
pub fn chi2q(x: f64, df: f64) -> f64 {
    let (a, y) = (df / 2.0, x / 2.0);
    // A value that is not a number compares as false.
    if !(y > 0.0 && a > 0.0) {
        return if y.is_nan() || a.is_nan() { f64::NAN } else { 1.0 };
    }
    if y.is_infinite() {
        return 0.0;
    }
    if y < a { 1.0 - lower(a, y) } else { upper(a, y) }
}

/// `P(a, y)` for `y < a`: D (1 + y/(a+1) + y²/((a+1)(a+2)) + ...).
fn lower(a: f64, y: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for index in 1..TERMS_MAX {
        term *= y / (a + index as f64);
        sum += term;
        if term < sum * f64::EPSILON / 4.0 {
            break;
        }
    }
    density(a, y) * sum
}

/// `Q(a, y)` for `y >= a`. For whole `a` the sum of the Poisson terms below `a`, largest first;
/// else a continued fraction by Lentz's method.
fn upper(a: f64, y: f64) -> f64 {
    if a.fract() == 0.0 {
        let (mut term, mut sum, mut below) = (1.0, 1.0, a - 1.0);
        while below > 0.0 && term > sum * f64::EPSILON / 4.0 {
            term *= below / y;
            sum += term;
            below -= 1.0;
        }
        return density(a, y) * (a / y) * sum;
    }
    let tiny = f64::MIN_POSITIVE * 1e10;
    let mut b = y + 1.0 - a;
    let mut c = 1.0 / tiny;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for index in 1..TERMS_MAX {
        let index = index as f64;
        let numerator = -index * (index - a);
        b += 2.0;
        d = numerator * d + b;
        d = 1.0 / if d.abs() < tiny { tiny } else { d };
        c = b + numerator / c;
        c = if c.abs() < tiny { tiny } else { c };
        let factor = d * c;
        fraction *= factor;
        if (factor - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    density(a, y) * a * fraction
}

/// `y^a e^-y / Γ(a+1)`, without the loss that taking logarithms of large numbers brings.
fn density(a: f64, y: f64) -> f64 {
    if a < SHIFTED_MIN {
        if y > FAR {
            return 0.0;
        }
        // Γ(a+1) by way of a larger one.
        let (mut above, mut factor) = (a, 1.0);
        while above < SHIFTED_MIN {
            above += 1.0;
            factor *= above;
        }
        return density(above, 1.0) * factor * y.powf(a) * (1.0 - y).exp();
    }
    let deviation = (y - a) / a;
    let exponent = a * log1p_minus(deviation);
    let correction = 1.0 / (12.0 * a) - 1.0 / (360.0 * a.powi(3)) + 1.0 / (1260.0 * a.powi(5))
        - 1.0 / (1680.0 * a.powi(7))
        + 1.0 / (1188.0 * a.powi(9));
    (exponent - correction).exp() / (2.0 * PI * a).sqrt()
}

/// Least argument for which Stirling's series is exact to the last bits.
const SHIFTED_MIN: f64 = 16.0;

/// Value above which the tail of few degrees of freedom is below the smallest double.
const FAR: f64 = 2000.0;

/// `ln(1 + x) - x`, also for small `x`.
fn log1p_minus(x: f64) -> f64 {
    if x.abs() > 0.25 {
        return x.ln_1p() - x;
    }
    // -x²/2 + x³/3 - ...
    let (mut power, mut sum) = (x, 0.0);
    let mut index = 2.0;
    while power.abs() > f64::EPSILON * 1e-6 * x.abs() {
        power *= -x;
        sum += power / index;
        index += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `gsl_cdf_chisq_Q`: x, degrees of freedom, result.
    const KNOWN: [(f64, f64, f64); 38] = [
        (0.002, 2.0, 0.999000499833375),
        (2.0, 2.0, 0.36787944117144233),
        (6.0, 2.0, 0.04978706836786395),
        (3.88, 4.0, 0.42248961234644744),
        (6.0, 4.0, 0.19914827347145553),
        (1.8, 6.0, 0.9371430657020811),
        (6.24, 6.0, 0.39684930402146296),
        (0.02, 20.0, 1.0),
        (20.0, 20.0, 0.4579297144718523),
        (60.0, 20.0, 7.121750862815585e-06),
        (97.0, 100.0, 0.5663187675720097),
        (150.0, 100.0, 0.0009039320423540101),
        (90.6, 302.0, 1.0),
        (314.08, 302.0, 0.3042678893462787),
        (2.0, 2000.0, 1.0),
        (2000.0, 2000.0, 0.49579475581978305),
        (6000.0, 2000.0, 0.0),
        (19400.0, 20000.0, 0.9987658244155315),
        (30000.0, 20000.0, 0.0),
        (0.3, 1.0, 0.5838824207703655),
        (1.04, 1.0, 0.30782147190884257),
        (0.003, 3.0, 0.9999563373734575),
        (3.0, 3.0, 0.3916251762710887),
        (9.0, 3.0, 0.029290886534888223),
        (0.485, 0.5, 0.2609483387884485),
        (0.75, 0.5, 0.19520088739911926),
        (0.432, 1.44, 0.6672120400834765),
        (1.4976, 1.44, 0.33357890308133176),
        (0.0073, 7.3, 0.9999999999121376),
        (7.3, 7.3, 0.4303552512725226),
        (21.9, 7.3, 0.003245641029133155),
        (30.749, 31.7, 0.5145948655965358),
        (47.55, 31.7, 0.03499784421619309),
        (75.075, 250.25, 1.0),
        (260.26, 250.25, 0.31870833584451214),
        (1.2345, 1234.5, 1.0),
        (1234.5, 1234.5, 0.49464743245416287),
        (3703.5, 1234.5, 1.8647513381365236e-244),
    ];

    #[test]
    fn known_values() {
        for (x, df, expected) in KNOWN {
            let result = chi2q(x, df);
            let error = (result - expected).abs();
            assert!(error <= 1e-12 * expected, "chi2q({x}, {df}) = {result}, not {expected}");
        }
    }

    #[test]
    fn the_ends() {
        assert_eq!(chi2q(0.0, 4.0), 1.0);
        assert_eq!(chi2q(-1.0, 4.0), 1.0);
        assert_eq!(chi2q(f64::INFINITY, 4.0), 0.0);
        assert_eq!(chi2q(1e300, 4.0), 0.0);
        assert!(chi2q(f64::NAN, 4.0).is_nan());
    }
}
