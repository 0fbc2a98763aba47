/* audio_wav.c - DecodeWav, EncodeWav: 16-bit PCM in a RIFF file (Microsoft and IBM, "Multimedia
 * Programming Interface and Data Specifications 1.0", 1991).
 *
 * Invariants: every read is within the file's bytes; samples are 1/32768 of the integers.
 * Threads: one.
 */
#include <math.h>
#include "base/bytes.h"

enum { PCM = 1, HEADER = 44, FULL = 32768 };
typedef struct { int64_t desired_channels, desired_samples; } wav_state;
typedef struct {
  int64_t channels, rate, samples;
  const uint8_t *data;
} wav;

static int64_t number_at(const uint8_t *p, int bytes) {
  int64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}
/* the chunk of this name from *at on (behind its eight bytes); 0: there is none */
static int find_chunk(const uint8_t *s, int64_t n, const char *name, int64_t *at, int64_t *size) {
  for (int64_t i = *at; i + 8 <= n; i += 8 + *size + (*size & 1)) {
    *size = number_at(s + i + 4, 4);
    if (memcmp(s + i, name, 4)) continue;
    *at = i + 8;
    return 1;
  }
  return 0;
}
static pf_status read_header(pf_ctx *c, pf_str file, wav *w) {
  const uint8_t *s = (const uint8_t *)file.data;
  int64_t at = 12, size;
  if (file.len < 12 || memcmp(s, "RIFF", 4) || memcmp(s + 8, "WAVE", 4))
    return PF_INVALID(c, "Header mismatch: Expected RIFF and WAVE");
  if (!find_chunk(s, file.len, "fmt ", &at, &size) || size < 16 || size > file.len - at)
    return PF_INVALID(c, "Bad file: no chunk 'fmt ' of 16 bytes or more");
  const uint8_t *f = s + at;
  w->channels = number_at(f + 2, 2), w->rate = number_at(f + 4, 4);
  if (number_at(f, 2) != PCM || number_at(f + 14, 2) != 16)
    return PF_INVALID(
        c, "Can only read 16-bit PCM WAV files, got format %" PRId64 " of %" PRId64 " bits",
        number_at(f, 2), number_at(f + 14, 2));
  if (w->channels < 1 || number_at(f + 12, 2) != 2 * w->channels || w->rate > INT32_MAX ||
      number_at(f + 8, 4) != w->rate * 2 * w->channels)
    return PF_INVALID(c,
                      "Bad bytes per sample or per second in WAV header: %" PRId64
                      " channels at %" PRId64 " Hz",
                      w->channels, w->rate);
  at += size + (size & 1);
  if (!find_chunk(s, file.len, "data", &at, &size))
    return PF_INVALID(c, "No data chunk found in WAV");
  if (size > file.len - at)
    return PF_INVALID(c, "Data too short when trying to read %" PRId64 " bytes of samples", size);
  w->samples = size / (2 * w->channels);
  w->data = s + at;
  return PF_OK;
}
static pf_status decode(pf_ctx *c, const void *state) {
  const wav_state *s = state;
  wav w;
  pf_str file;
  if (c->in[0]->ndim != 0)
    return PF_INVALID(c, "contents must be scalar, got shape %s", PF_SHAPE(c->in[0]).s);
  if (s->desired_channels < -1 || s->desired_channels == 0 || s->desired_samples < -1)
    return PF_INVALID(c,
                      "desired_channels must be -1 or positive and desired_samples -1 or more, "
                      "got %" PRId64 " and %" PRId64,
                      s->desired_channels, s->desired_samples);
  PF_TRY(c->host->str_get(c->in[0], 0, &file));
  PF_TRY(read_header(c, file, &w));
  int64_t shape[2] = {s->desired_samples < 0 ? w.samples : s->desired_samples,
                      s->desired_channels < 0 ? w.channels : s->desired_channels};
  DLTensor *audio = pf_output_checked(c, 0, shape, 2);
  if (!audio) return PF_INVALID_ARGUMENT;
  DLTensor *rate = c->host->output(c, 1, NULL, 0);
  PF_EXHAUSTED(rate);
  PF_DATA(int32_t, rate)[0] = (int32_t)w.rate;
  float *y = PF_DATA(float, audio);
  for (int64_t i = 0; i < shape[0]; i++)
    for (int64_t k = 0; k < shape[1]; k++, y++) {
      int64_t from = i * w.channels + PF_MIN(k, w.channels - 1); /* the last channel again */
      *y = i < w.samples ? (float)(int16_t)number_at(w.data + 2 * from, 2) / FULL : 0;
    }
  return PF_OK;
}

static void put_number(pf_bytes *b, int64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) pf_bytes_add(b, &(char){(char)(v >> 8 * i)}, 1);
}
static void put_header(pf_bytes *b, int64_t samples, int64_t channels, int64_t rate) {
  int64_t size = samples * channels * 2;
  pf_bytes_text(b, "RIFF"), put_number(b, HEADER - 8 + size, 4);
  pf_bytes_text(b, "WAVEfmt "), put_number(b, 16, 4);
  put_number(b, PCM, 2), put_number(b, channels, 2), put_number(b, rate, 4);
  put_number(b, rate * channels * 2, 4), put_number(b, channels * 2, 2), put_number(b, 16, 2);
  pf_bytes_text(b, "data"), put_number(b, size, 4);
}
static pf_status encode(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t rate;
  pf_bytes b = {0};
  (void)state;
  if (x->ndim != 2) return PF_INVALID(c, "audio must be 2-D, got shape %s", PF_SHAPE(x).s);
  PF_TRY(pf_in_scalar(c, 1, "sample_rate", &rate));
  int64_t n = pf_numel(x), channels = x->shape[1];
  if (rate <= 0) return PF_INVALID(c, "sample_rate must be positive, got %" PRId64, rate);
  if (channels < 1 || channels > UINT16_MAX / 2 || rate > UINT32_MAX / (2 * channels) ||
      n > (UINT32_MAX - HEADER) / 2)
    return PF_INVALID(c, "audio of shape %s at %" PRId64 " Hz does not fit a WAV file",
                      PF_SHAPE(x).s, rate);
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pf_bytes_reserve(&b, HEADER + 2 * n);
  put_header(&b, x->shape[0], channels, rate);
  for (int64_t i = 0; i < n; i++) {
    float v = roundf(PF_DATA(const float, x)[i] * FULL);
    put_number(&b, v >= FULL - 1 ? FULL - 1 : v > -FULL ? (int64_t)v : -FULL, 2); /* NaN: least */
  }
  pf_status st = b.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a WAV file")
                          : c->host->str_set(y, 0, (pf_str){b.data, b.n});
  pf_bytes_free(&b);
  return st;
}

const pf_kernel *const audio_wav_kernels[] = {
  PF_CPU("DecodeWav", NULL, .compute = decode, .state_size = sizeof(wav_state),
         .attrs = PF_ATTRS(PF_ATTR(wav_state, PF_ATTR_INT, desired_channels),
                           PF_ATTR(wav_state, PF_ATTR_INT, desired_samples))),
  PF_CPU("EncodeWav", NULL, .compute = encode), NULL};
