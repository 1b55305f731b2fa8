//! The upper halves of the single-byte charsets: the code points of the bytes 0x80 to 0xFF. Facts
//! of the Unicode mapping tables as the C library of Debian 12 has them.

/// A charset, the names it goes by in upper case, and its upper half: 0 where there is nothing.
pub(super) type SingleByte = (&'static [&'static str], [u16; 128]);

/// An upper half from a text: a code point for each byte, in hexadecimal digits; `-` between two
/// stands for those between them, `.` for a byte that means nothing.
const fn upper(text: &str) -> [u16; 128] {
    upper_of(text, "")
}

/// An upper half from two texts.
const fn upper_of(first: &str, rest: &str) -> [u16; 128] {
    let (upper, count) = filled([0; 128], 0, first.as_bytes());
    let (upper, count) = filled(upper, count, rest.as_bytes());
    assert!(count == 128, "every byte has its place");
    upper
}

/// With the code points of a text from `count` on, and how many there are then.
const fn filled(mut upper: [u16; 128], mut count: usize, text: &[u8]) -> ([u16; 128], usize) {
    let (mut at, mut is_range) = (0, false);
    while at < text.len() {
        match text[at] {
            b' ' => at += 1,
            b'.' => (count, at) = (count + 1, at + 1),
            b'-' => (is_range, at) = (true, at + 1),
            _ => {
                let code;
                (code, at) = code_point(text, at);
                while is_range && upper[count - 1] + 1 < code {
                    upper[count] = upper[count - 1] + 1;
                    count += 1;
                }
                upper[count] = code;
                (count, is_range) = (count + 1, false);
            }
        }
    }
    (upper, count)
}

/// The number whose digits begin at a place, and its end.
const fn code_point(text: &[u8], mut at: usize) -> (u16, usize) {
    let mut code = 0;
    while at < text.len() && !matches!(text[at], b' ' | b'-') {
        let digit = (text[at] as char).to_digit(16);
        code = code << 4 | digit.expect("because there are just digits") as u16;
        at += 1;
    }
    (code, at)
}

/// From 0xB0 on, in most code pages of DOS: lines and blocks, Greek letters, mathematics.
const GRAPHICS: &str = "\
    2591-2593 2502 2524 2561 2562 2556 2555 2563 2551 2557 255D 255C 255B 2510 2514 \
    2534 252C 251C 2500 253C 255E 255F 255A 2554 2569 2566 2560 2550 256C 2567 2568 \
    2564 2565 2559 2558 2552 2553 256B 256A 2518 250C 2588 2584 258C 2590 2580 3B1 DF \
    393 3C0 3A3 3C3 B5 3C4 3A6 398 3A9 3B4 221E 3C6 3B5 2229 2261 B1 2265 2264 2320 \
    2321 F7 2248 B0 2219 B7 221A 207F B2 25A0 A0";

/// All of them.
#[rustfmt::skip]
pub(super) static SINGLE_BYTE: [SingleByte; 43] = [
    (&["CP912", "CSISOLATIN2", "IBM912", "ISO-8859-2", "ISO-IR-101", "ISO8859-2", "ISO88592",
        "L2", "LATIN2", "OSF00010002"],
        upper("80-A0 104 2D8 141 A4 13D 15A A7 A8 160 15E 164 179 AD 17D 17B B0 105 2DB 142 B4 \
            13E 15B 2C7 B8 161 15F 165 17A 2DD 17E 17C 154 C1 C2 102 C4 139 106 C7 10C C9 \
            118 CB 11A CD CE 10E 110 143 147 D3 D4 150 D6 D7 158 16E DA 170 DC DD 162 DF 155 \
            E1 E2 103 E4 13A 107 E7 10D E9 119 EB 11B ED EE 10F 111 144 148 F3 F4 151 F6 F7 \
            159 16F FA 171 FC FD 163 2D9")),
    (&["CSISOLATIN3", "ISO-8859-3", "ISO-IR-109", "ISO8859-3", "ISO88593", "L3", "LATIN3",
        "OSF00010003"],
        upper("80-A0 126 2D8 A3 A4 . 124 A7 A8 130 15E 11E 134 AD . 17B B0 127 B2-B5 125 B7 B8 \
            131 15F 11F 135 BD . 17C C0-C2 . C4 10A 108 C7-CF . D1-D4 120 D6 D7 11C D9-DC \
            16C 15C DF-E2 . E4 10B 109 E7-EF . F1-F4 121 F6 F7 11D F9-FC 16D 15D 2D9")),
    (&["CSISOLATIN4", "ISO-8859-4", "ISO-IR-110", "ISO8859-4", "ISO88594", "L4", "LATIN4",
        "OSF00010004"],
        upper("80-A0 104 138 156 A4 128 13B A7 A8 160 112 122 166 AD 17D AF B0 105 2DB 157 B4 \
            129 13C 2C7 B8 161 113 123 167 14A 17E 14B 100 C1-C6 12E 10C C9 118 CB 116 CD CE \
            12A 110 145 14C 136 D4-D8 172 DA-DC 168 16A DF 101 E1-E6 12F 10D E9 119 EB 117 \
            ED EE 12B 111 146 14D 137 F4-F8 173 FA-FC 169 16B 2D9")),
    (&["CP915", "CSISOLATINCYRILLIC", "CYRILLIC", "IBM915", "ISO-8859-5", "ISO-IR-144",
        "ISO8859-5", "ISO88595", "OSF00010005"],
        upper("80-A0 401-40C AD 40E-44F 2116 451-45C A7 45E 45F")),
    (&["ARABIC", "ASMO-708", "CP1089", "CSISOLATINARABIC", "ECMA-114", "IBM1089", "ISO-8859-6",
        "ISO-IR-127", "ISO8859-6", "ISO88596", "OSF00010006"],
        upper("80-A0 ... A4 ....... 60C AD ............. 61B ... 61F . 621-63A ..... 640-652 \
            .............")),
    (&["CP813", "CSISOLATINGREEK", "ECMA-118", "GREEK", "GREEK8", "IBM813", "ISO-8859-7",
        "ISO-IR-126", "ISO8859-7", "ISO88597", "OSF00010007"],
        upper("80-A0 2018 2019 A3 20AC 20AF A6-A9 37A AB-AD . 2015 B0-B3 384-386 B7 388-38A BB \
            38C BD 38E-3A1 . 3A3-3CE .")),
    (&["CP916", "CSISOLATINHEBREW", "HEBREW", "IBM916", "ISO-8859-8", "ISO-IR-138",
        "ISO8859-8", "ISO88598", "OSF00010008"],
        upper("80-A0 . A2-A9 D7 AB-B9 F7 BB-BE ................................ 2017 5D0-5EA .. \
            200E 200F .")),
    (&["CP920", "CSISOLATIN5", "ECMA-128", "IBM920", "ISO-8859-9", "ISO-IR-148", "ISO8859-9",
        "ISO88599", "L5", "LATIN5", "OSF00010009", "TS-5881"],
        upper("80-CF 11E D1-DC 130 15E DF-EF 11F F1-FC 131 15F FF")),
    (&["CSISOLATIN6", "ISO-8859-10", "ISO-IR-157", "ISO8859-10", "ISO885910", "L6", "LATIN6",
        "OSF0001000A"],
        upper("80-A0 104 112 122 12A 128 136 A7 13B 110 160 166 17D AD 16A 14A B0 105 113 123 \
            12B 129 137 B7 13C 111 161 167 17E 2015 16B 14B 100 C1-C6 12E 10C C9 118 CB 116 \
            CD-D0 145 14C D3-D6 168 D8 172 DA-DF 101 E1-E6 12F 10D E9 119 EB 117 ED-F0 146 \
            14D F3-F6 169 F8 173 FA-FE 138")),
    (&["ISO-8859-11", "ISO8859-11", "ISO885911"],
        upper("80-A0 E01-E3A .... E3F-E5B ....")),
    (&["BALTIC", "ISO-8859-13", "ISO-IR-179", "ISO8859-13", "ISO885913", "L7", "LATIN7"],
        upper("80-A0 201D A2-A4 201E A6 A7 D8 A9 156 AB-AE C6 B0-B3 201C B5-B7 F8 B9 157 BB-BE \
            E6 104 12E 100 106 C4 C5 118 112 10C C9 179 116 122 136 12A 13B 160 143 145 D3 \
            14C D5-D7 172 141 15A 16A DC 17B 17D DF 105 12F 101 107 E4 E5 119 113 10D E9 17A \
            117 123 137 12B 13C 161 144 146 F3 14D F5-F7 173 142 15B 16B FC 17C 17E 2019")),
    (&["ISO-8859-14", "ISO-CELTIC", "ISO-IR-199", "ISO8859-14", "ISO885914", "L8", "LATIN8"],
        upper("80-A0 1E02 1E03 A3 10A 10B 1E0A A7 1E80 A9 1E82 1E0B 1EF2 AD AE 178 1E1E 1E1F \
            120 121 1E40 1E41 B6 1E56 1E81 1E57 1E83 1E60 1EF3 1E84 1E85 1E61 C0-CF 174 \
            D1-D6 1E6A D8-DD 176 DF-EF 175 F1-F6 1E6B F8-FD 177 FF")),
    (&["ISO-8859-15", "ISO-IR-203", "ISO8859-15", "ISO885915", "LATIN-9", "LATIN9"],
        upper("80-A3 20AC A5 160 A7 161 A9-B3 17D B5-B7 17E B9-BB 152 153 178 BF-FF")),
    (&["ISO-8859-16", "ISO-IR-226", "ISO8859-16", "ISO885916", "L10", "LATIN10"],
        upper("80-A0 104 105 141 20AC 201E 160 A7 161 A9 218 AB 179 AD 17A 17B B0 B1 10C 142 \
            17D 201D B6 B7 17E 10D 219 BB 152 153 178 17C C0-C2 102 C4 106 C6-CF 110 143 \
            D2-D4 150 D6 15A 170 D9-DC 118 21A DF-E2 103 E4 107 E6-EF 111 144 F2-F4 151 F6 \
            15B 171 F9-FC 119 21B FF")),
    (&["CP1250", "MS-EE", "WINDOWS-1250"],
        upper("20AC . 201A . 201E 2026 2020 2021 . 2030 160 2039 15A 164 17D 179 . 2018 2019 \
            201C 201D 2022 2013 2014 . 2122 161 203A 15B 165 17E 17A A0 2C7 2D8 141 A4 104 \
            A6-A9 15E AB-AE 17B B0 B1 2DB 142 B4-B8 105 15F BB 13D 2DD 13E 17C 154 C1 C2 102 \
            C4 139 106 C7 10C C9 118 CB 11A CD CE 10E 110 143 147 D3 D4 150 D6 D7 158 16E DA \
            170 DC DD 162 DF 155 E1 E2 103 E4 13A 107 E7 10D E9 119 EB 11B ED EE 10F 111 144 \
            148 F3 F4 151 F6 F7 159 16F FA 171 FC FD 163 2D9")),
    (&["CP1251", "MS-CYRL", "WINDOWS-1251"],
        upper("402 403 201A 453 201E 2026 2020 2021 20AC 2030 409 2039 40A 40C 40B 40F 452 2018 \
            2019 201C 201D 2022 2013 2014 . 2122 459 203A 45A 45C 45B 45F A0 40E 45E 408 A4 \
            490 A6 A7 401 A9 404 AB-AE 407 B0 B1 406 456 491 B5-B7 451 2116 454 BB 458 405 \
            455 457 410-44F")),
    (&["CP1252", "MS-ANSI", "WINDOWS-1252"],
        upper("20AC . 201A 192 201E 2026 2020 2021 2C6 2030 160 2039 152 . 17D .. 2018 2019 \
            201C 201D 2022 2013 2014 2DC 2122 161 203A 153 . 17E 178 A0-FF")),
    (&["CP1253", "MS-GREEK", "WINDOWS-1253"],
        upper("20AC . 201A 192 201E 2026 2020 2021 . 2030 . 2039 ..... 2018 2019 201C 201D 2022 \
            2013 2014 . 2122 . 203A .... A0 385 386 A3-A9 . AB-AE 2015 B0-B3 384 B5-B7 \
            388-38A BB 38C BD 38E-3A1 . 3A3-3CE .")),
    (&["CP1254", "MS-TURK", "WINDOWS-1254"],
        upper("20AC . 201A 192 201E 2026 2020 2021 2C6 2030 160 2039 152 .... 2018 2019 201C \
            201D 2022 2013 2014 2DC 2122 161 203A 153 .. 178 A0-CF 11E D1-DC 130 15E DF-EF \
            11F F1-FC 131 15F FF")),
    (&["CP1255", "MS-HEBR", "WINDOWS-1255"],
        upper("20AC . 201A 192 201E 2026 2020 2021 2C6 2030 . 2039 ..... 2018 2019 201C 201D \
            2022 2013 2014 2DC 2122 . 203A .... A0-A3 20AA A5-A9 D7 AB-B9 F7 BB-BF 5B0-5B9 . \
            5BB-5C3 5F0-5F4 ....... 5D0-5EA .. 200E 200F .")),
    (&["CP1256", "MS-ARAB", "WINDOWS-1256"],
        upper("20AC 67E 201A 192 201E 2026 2020 2021 2C6 2030 679 2039 152 686 698 688 6AF 2018 \
            2019 201C 201D 2022 2013 2014 6A9 2122 691 203A 153 200C 200D 6BA A0 60C A2-A9 \
            6BE AB-B9 61B BB-BE 61F 6C1 621-636 D7 637-63A 640-643 E0 644 E2 645-648 E7-EB \
            649 64A EE EF 64B-64E F4 64F 650 F7 651 F9 652 FB FC 200E 200F 6D2")),
    (&["CP1257", "WINBALTRIM", "WINDOWS-1257"],
        upper("20AC . 201A . 201E 2026 2020 2021 . 2030 . 2039 . A8 2C7 B8 . 2018 2019 201C \
            201D 2022 2013 2014 . 2122 . 203A . AF 2DB . A0 . A2-A4 . A6 A7 D8 A9 156 AB-AE \
            C6 B0-B7 F8 B9 157 BB-BE E6 104 12E 100 106 C4 C5 118 112 10C C9 179 116 122 136 \
            12A 13B 160 143 145 D3 14C D5-D7 172 141 15A 16A DC 17B 17D DF 105 12F 101 107 \
            E4 E5 119 113 10D E9 17A 117 123 137 12B 13C 161 144 146 F3 14D F5-F7 173 142 \
            15B 16B FC 17C 17E 2D9")),
    (&["CP1258", "WINDOWS-1258"],
        upper("20AC . 201A 192 201E 2026 2020 2021 2C6 2030 . 2039 152 .... 2018 2019 201C 201D \
            2022 2013 2014 2DC 2122 . 203A 153 .. 178 A0-C2 102 C4-CB 300 CD-CF 110 D1 309 \
            D3 D4 1A0 D6-DC 1AF 303 DF-E2 103 E4-EB 301 ED-EF 111 F1 323 F3 F4 1A1 F6-FC 1B0 \
            20AB FF")),
    (&["CSKOI8R", "KOI8-R", "KOI8R"],
        upper("2500 2502 250C 2510 2514 2518 251C 2524 252C 2534 253C 2580 2584 2588 258C \
            2590-2593 2320 25A0 2219 221A 2248 2264 2265 A0 2321 B0 B2 B7 F7 2550-2552 451 \
            2553-2561 401 2562-256C A9 44E 430 431 446 434 435 444 433 445 438-43F 44F \
            440-443 436 432 44C 44B 437 448 44D 449 447 44A 42E 410 411 426 414 415 424 413 \
            425 418-41F 42F 420-423 416 412 42C 42B 417 428 42D 429 427 42A")),
    (&["KOI8-U", "KOI8U"],
        upper("2500 2502 250C 2510 2514 2518 251C 2524 252C 2534 253C 2580 2584 2588 258C \
            2590-2593 2320 25A0 2219 221A 2248 2264 2265 A0 2321 B0 B2 B7 F7 2550-2552 451 \
            454 2554 456 457 2557-255B 491 255D-2561 401 404 2563 406 407 2566-256A 490 256C \
            A9 44E 430 431 446 434 435 444 433 445 438-43F 44F 440-443 436 432 44C 44B 437 \
            448 44D 449 447 44A 42E 410 411 426 414 415 424 413 425 418-41F 42F 420-423 416 \
            412 42C 42B 417 428 42D 429 427 42A")),
    (&["KOI8-T"],
        upper("49B 493 201A 492 201E 2026 2020 2021 . 2030 4B3 2039 4B2 4B7 4B6 . 49A 2018 2019 \
            201C 201D 2022 2013 2014 . 2122 . 203A ..... 4EF 4EE 451 A4 4E3 A6 A7 ... AB-AE \
            . B0-B2 401 . 4E2 B6 B7 . 2116 . BB ... A9 44E 430 431 446 434 435 444 433 445 \
            438-43F 44F 440-443 436 432 44C 44B 437 448 44D 449 447 44A 42E 410 411 426 414 \
            415 424 413 425 418-41F 42F 420-423 416 412 42C 42B 417 428 42D 429 427 42A")),
    (&["437", "CP437", "CSPC8CODEPAGE437", "IBM437", "OSF100201B5"],
        upper_of(
            "C7 FC E9 E2 E4 E0 E5 E7 EA EB E8 EF EE EC C4 C5 C9 E6 C6 F4 F6 F2 FB F9 FF D6 \
            DC A2 A3 A5 20A7 192 E1 ED F3 FA F1 D1 AA BA BF 2310 AC BD BC A1 AB BB",
            GRAPHICS,
        )),
    (&["CP775", "CSPC775BALTIC", "IBM775"],
        upper("106 FC E9 101 E4 123 E5 107 142 113 156 157 12B 179 C4 C5 C9 E6 C6 14D F6 122 A2 \
            15A 15B D6 DC F8 A3 D8 D7 A4 100 12A F3 17B 17C 17A 201D A6 A9 AE AC BD BC 141 \
            AB BB 2591-2593 2502 2524 104 10C 118 116 2563 2551 2557 255D 12E 160 2510 2514 \
            2534 252C 251C 2500 253C 172 16A 255A 2554 2569 2566 2560 2550 256C 17D 105 10D \
            119 117 12F 161 173 16B 17E 2518 250C 2588 2584 258C 2590 2580 D3 DF 14C 143 F5 \
            D5 B5 144 136 137 13B 13C 146 112 145 2019 AD B1 201C BE B6 A7 F7 201E B0 2219 \
            B7 B9 B3 B2 25A0 A0")),
    (&["850", "CP850", "CSPC850MULTILINGUAL", "IBM850", "OSF10020352"],
        upper("C7 FC E9 E2 E4 E0 E5 E7 EA EB E8 EF EE EC C4 C5 C9 E6 C6 F4 F6 F2 FB F9 FF D6 DC \
            F8 A3 D8 D7 192 E1 ED F3 FA F1 D1 AA BA BF AE AC BD BC A1 AB BB 2591-2593 2502 \
            2524 C1 C2 C0 A9 2563 2551 2557 255D A2 A5 2510 2514 2534 252C 251C 2500 253C E3 \
            C3 255A 2554 2569 2566 2560 2550 256C A4 F0 D0 CA CB C8 131 CD-CF 2518 250C 2588 \
            2584 A6 CC 2580 D3 DF D4 D2 F5 D5 B5 FE DE DA DB D9 FD DD AF B4 AD B1 2017 BE B6 \
            A7 F7 B8 B0 A8 B7 B9 B3 B2 25A0 A0")),
    (&["852", "CP852", "CSPCP852", "IBM852", "OSF10020354"],
        upper("C7 FC E9 E2 E4 16F 107 E7 142 EB 150 151 EE 179 C4 106 C9 139 13A F4 F6 13D 13E \
            15A 15B D6 DC 164 165 141 D7 10D E1 ED F3 FA 104 105 17D 17E 118 119 AC 17A 10C \
            15F AB BB 2591-2593 2502 2524 C1 C2 11A 15E 2563 2551 2557 255D 17B 17C 2510 \
            2514 2534 252C 251C 2500 253C 102 103 255A 2554 2569 2566 2560 2550 256C A4 111 \
            110 10E CB 10F 147 CD CE 11B 2518 250C 2588 2584 162 16E 2580 D3 DF D4 143 144 \
            148 160 161 154 DA 155 170 FD DD 163 B4 AD 2DD 2DB 2C7 2D8 A7 F7 B8 B0 A8 2D9 \
            171 158 159 25A0 A0")),
    (&["855", "CP855", "CSIBM855", "IBM855", "OSF10020357"],
        upper("452 402 453 403 451 401 454 404 455 405 456 406 457 407 458 408 459 409 45A 40A \
            45B 40B 45C 40C 45E 40E 45F 40F 44E 42E 44A 42A 430 410 431 411 446 426 434 414 \
            435 415 444 424 433 413 AB BB 2591-2593 2502 2524 445 425 438 418 2563 2551 2557 \
            255D 439 419 2510 2514 2534 252C 251C 2500 253C 43A 41A 255A 2554 2569 2566 2560 \
            2550 256C A4 43B 41B 43C 41C 43D 41D 43E 41E 43F 2518 250C 2588 2584 41F 44F \
            2580 42F 440 420 441 421 442 422 443 423 436 416 432 412 44C 42C 2116 AD 44B 42B \
            437 417 448 428 44D 42D 449 429 447 427 A7 25A0 A0")),
    (&["857", "CP857", "CSIBM857", "IBM857", "OSF10020359"],
        upper("C7 FC E9 E2 E4 E0 E5 E7 EA EB E8 EF EE 131 C4 C5 C9 E6 C6 F4 F6 F2 FB F9 130 D6 \
            DC F8 A3 D8 15E 15F E1 ED F3 FA F1 D1 11E 11F BF AE AC BD BC A1 AB BB 2591-2593 \
            2502 2524 C1 C2 C0 A9 2563 2551 2557 255D A2 A5 2510 2514 2534 252C 251C 2500 \
            253C E3 C3 255A 2554 2569 2566 2560 2550 256C A4 BA AA CA CB C8 . CD-CF 2518 \
            250C 2588 2584 A6 CC 2580 D3 DF D4 D2 F5 D5 B5 . D7 DA DB D9 EC FF AF B4 AD B1 . \
            BE B6 A7 F7 B8 B0 A8 B7 B9 B3 B2 25A0 A0")),
    (&["860", "CP860", "CSIBM860", "IBM860"],
        upper_of(
            "C7 FC E9 E2 E3 E0 C1 E7 EA CA E8 CD D4 EC C3 C2 C9 C0 C8 F4 F5 F2 DA F9 CC D5 \
            DC A2 A3 D9 20A7 D3 E1 ED F3 FA F1 D1 AA BA BF D2 AC BD BC A1 AB BB",
            GRAPHICS,
        )),
    (&["861", "CP861", "CPIBM861", "IBM861", "OSF1002035D"],
        upper_of(
            "C7 FC E9 E2 E4 E0 E5 E7 EA EB E8 D0 F0 DE C4 C5 C9 E6 C6 F4 F6 FE FB DD FD D6 \
            DC F8 A3 D8 20A7 192 E1 ED F3 FA C1 CD D3 DA BF 2310 AC BD BC A1 AB BB",
            GRAPHICS,
        )),
    (&["862", "CP862", "CSPC862LATINHEBREW", "IBM862", "OSF1002035E"],
        upper_of(
            "5D0-5EA A2 A3 A5 20A7 192 E1 ED F3 FA F1 D1 AA BA BF 2310 AC BD BC A1 AB BB",
            GRAPHICS,
        )),
    (&["863", "CP863", "CSIBM863", "IBM863", "OSF1002035F"],
        upper_of(
            "C7 FC E9 E2 C2 E0 B6 E7 EA EB E8 EF EE 2017 C0 A7 C9 C8 CA F4 CB CF FB F9 A4 D4 \
            DC A2 A3 D9 DB 192 A6 B4 F3 FA A8 B8 B3 AF CE 2310 AC BD BC BE AB BB",
            GRAPHICS,
        )),
    (&["865", "CP865", "CSIBM865", "IBM865"],
        upper_of(
            "C7 FC E9 E2 E4 E0 E5 E7 EA EB E8 EF EE EC C4 C5 C9 E6 C6 F4 F6 F2 FB F9 FF D6 \
            DC F8 A3 D8 20A7 192 E1 ED F3 FA F1 D1 AA BA BF 2310 AC BD BC A1 AB A4",
            GRAPHICS,
        )),
    (&["866", "CP866", "CSIBM866", "IBM866"],
        upper("410-43F 2591-2593 2502 2524 2561 2562 2556 2555 2563 2551 2557 255D 255C 255B \
            2510 2514 2534 252C 251C 2500 253C 255E 255F 255A 2554 2569 2566 2560 2550 256C \
            2567 2568 2564 2565 2559 2558 2552 2553 256B 256A 2518 250C 2588 2584 258C 2590 \
            2580 440-44F 401 451 404 454 407 457 40E 45E B0 2219 B7 221A 2116 A4 25A0 A0")),
    (&["874", "CP874", "IBM874", "WINDOWS-874"],
        upper("20AC .... 2026 ........... 2018 2019 201C 201D 2022 2013 2014 ........ A0 \
            E01-E3A .... E3F-E5B ....")),
    (&["CSMACINTOSH", "MAC", "MACINTOSH"],
        upper("C4 C5 C7 C9 D1 D6 DC E1 E0 E2 E4 E3 E5 E7 E9 E8 EA EB ED EC EE EF F1 F3 F2 F4 F6 \
            F5 FA F9 FB FC 2020 B0 A2 A3 A7 2022 B6 DF AE A9 2122 B4 A8 2260 C6 D8 221E B1 \
            2264 2265 A5 B5 2202 2211 220F 3C0 222B AA BA 3A9 E6 F8 BF A1 AC 221A 192 2248 \
            394 AB BB 2026 A0 C0 C3 D5 152 153 2013 2014 201C 201D 2018 2019 F7 25CA FF 178 \
            2044 20AC 2039 203A FB01 FB02 2021 B7 201A 201E 2030 C2 CA C1 CB C8 CD-CF CC D3 \
            D4 E01E D2 DA DB D9 131 2C6 2DC AF 2D8-2DA B8 2DD 2DB 2C7")),
    (&["MAC-CYRILLIC", "MAC-UK", "MACCYRILLIC", "MACUK", "MACUKRAINIAN"],
        upper("410-42F 2020 B0 490 A3 A7 2022 B6 406 AE A9 2122 402 452 2260 403 453 221E B1 \
            2264 2265 456 B5 491 408 404 454 407 457 409 459 40A 45A 458 405 AC 221A 192 \
            2248 2206 AB BB 2026 A0 40B 45B 40C 45C 455 2013 2014 201C 201D 2018 2019 F7 \
            201E 40E 45E 40F 45F 2116 401 451 44F 430-44E A4")),
    (&["CP1282", "MAC-CENTRALEUROPE"],
        upper("C4 100 101 C9 104 D6 DC E1 105 10C E4 10D 106 107 E9 179 17A 10E ED 10F 112 113 \
            116 F3 117 F4 F6 F5 FA 11A 11B FC 2020 B0 118 A3 A7 2022 B6 DF AE A9 2122 119 A8 \
            2260 123 12E 12F 12A 2264 2265 12B 136 2202 2211 142 13B-13E 139 13A 145 146 143 \
            AC 221A 144 147 2206 AB BB 2026 A0 148 150 D5 151 14C 2013 2014 201C 201D 2018 \
            2019 F7 25CA 14D 154 155 158 2039 203A 159 156 157 160 201A 201E 161 15A 15B C1 \
            164 165 CD 17D 17E 16A D3 D4 16B 16E DA 16F-173 DD FD 137 17B 141 17C 122 2C7")),
    (&["ISO-IR-166", "TIS-620", "TIS620", "TIS620-0"],
        upper("................................. E01-E3A .... E3F-E5B ....")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_for_code_points() {
        let upper = upper(&format!("A0 104-106 {} 2D8", ".".repeat(123)));
        assert_eq!(upper[..5], [0xA0, 0x104, 0x105, 0x106, 0]);
        assert_eq!(upper[126..], [0, 0x2D8]);
    }

    /// What they were when they were compared with the C library.
    #[test]
    fn halves_stay_what_they_are() {
        let bytes = SINGLE_BYTE.iter().flat_map(|(_, upper)| upper.map(u16::to_le_bytes));
        let bytes: Vec<u8> = bytes.flatten().collect();
        assert_eq!(xxhash_rust::xxh3::xxh3_64(&bytes), 0x50F8_EBC6_CB04_6F77);
    }
}
