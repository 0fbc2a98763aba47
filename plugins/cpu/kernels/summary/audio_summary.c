/* audio_summary.c - AudioSummary, AudioSummaryV2: sounds as WAV files of 16 bits in a Summary.
 *
 * Invariants: the bytes are those of TensorFlow's kernels; a sample is rounded and clipped.
 * Threads: one.
 */
#include "summary/proto.h"

enum { PCM = 1, HEADER = 44, FULL = 32768, AUDIO = 6 };
typedef struct {
  int64_t max_outputs;
  double sample_rate;
} audio_state;
typedef struct {
  const float *data;
  int64_t frames, channels, rate;
} sound;

static void put_number(pf_bytes *b, int64_t v, int bytes) {
  char text[8];
  for (int i = 0; i < bytes; i++) text[i] = (char)(v >> 8 * i);
  pf_bytes_add(b, text, bytes);
}
static void put_wav(pf_bytes *b, const sound *s) {
  int64_t n = s->frames * s->channels;
  pf_bytes_reserve(b, HEADER + 2 * n);
  pf_bytes_text(b, "RIFF"), put_number(b, HEADER - 8 + 2 * n, 4);
  pf_bytes_text(b, "WAVEfmt "), put_number(b, 16, 4), put_number(b, PCM, 2);
  put_number(b, s->channels, 2), put_number(b, s->rate, 4);
  put_number(b, s->rate * s->channels * 2, 4), put_number(b, s->channels * 2, 2);
  put_number(b, 16, 2), pf_bytes_text(b, "data"), put_number(b, 2 * n, 4);
  for (int64_t i = 0; i < n; i++) {
    float v = roundf(s->data[i] * FULL);
    put_number(b, v >= FULL - 1 ? FULL - 1 : v > -FULL ? (int64_t)v : -FULL, 2); /* NaN: least */
  }
}
static void put_sound(pf_bytes *summary, pf_str tag, int64_t number, const sound *s, float rate) {
  pf_bytes value = {0}, name = {0}, audio = {0}, wav = {0};
  pf_bytes_add(&name, tag.data, tag.len);
  pf_bytes_text(&name, "/audio");
  if (number >= 0) pf_bytes_printf(&name, "/%" PRId64, number);
  put_wav(&wav, s);
  pb_float(&audio, 1, rate), pb_int(&audio, 2, s->channels), pb_int(&audio, 3, s->frames);
  pb_message(&audio, 4, &wav);
  pb_bytes(&audio, 5, "audio/wav", 9);
  pb_message(&value, 1, &name);
  pb_message(&value, AUDIO, &audio);
  pb_message(summary, 1, &value);
}
static pf_status check(pf_ctx *c, const DLTensor *x, float rate, sound *s) {
  int64_t n;
  if (x->ndim != 2 && x->ndim != 3)
    return PF_INVALID(c, "Tensor must be 3-D or 2-D, got: %s", PF_SHAPE(x).s);
  s->frames = x->shape[1], s->channels = x->ndim == 2 ? 1 : x->shape[2];
  if (!(rate > 0) || rate >= 0x1p31f)
    return PF_INVALID(c, "sample_rate must be > 0 and fit a WAV file, got %g", (double)rate);
  s->rate = lrintf(rate);
  if (s->channels < 1 || s->channels > UINT16_MAX / 2 || s->rate < 1 ||
      s->rate > UINT32_MAX / (2 * s->channels) || !pf_mul(s->frames, s->channels, &n) ||
      n > (UINT32_MAX - HEADER) / 2)
    return PF_INVALID(c, "audio of shape %s at %g Hz does not fit a WAV file", PF_SHAPE(x).s,
                      (double)rate);
  return PF_OK;
}
static pf_status all(pf_ctx *c, const audio_state *state, float rate) {
  const DLTensor *x = c->in[1];
  sound s;
  pf_str tag;
  pf_bytes summary = {0};
  PF_TRY(pb_tag_input(c, 0, "tag", &tag));
  PF_TRY(check(c, x, rate, &s));
  int64_t count = PF_MIN(state->max_outputs, x->shape[0]);
  for (int64_t i = 0; i < count; i++) {
    s.data = PF_DATA(const float, x) + i * s.frames * s.channels;
    put_sound(&summary, tag, state->max_outputs > 1 ? i : -1, &s, rate);
    if (c->host->cancelled(c)) {
      pf_bytes_free(&summary);
      return PF_CANCELLED;
    }
  }
  return pb_done(c, &summary);
}
static pf_status audio_v1(pf_ctx *c, const void *state) {
  return all(c, state, (float)((const audio_state *)state)->sample_rate);
}
static pf_status audio_v2(pf_ctx *c, const void *state) {
  if (pf_numel(c->in[2]) != 1 || c->in[2]->ndim != 0)
    return PF_INVALID(c, "sample_rate must be a scalar, got shape %s", PF_SHAPE(c->in[2]).s);
  return all(c, state, PF_DATA(const float, c->in[2])[0]);
}

const pf_kernel *const audio_summary_kernels[] = {
  PF_CPU("AudioSummary", NULL, .compute = audio_v1, .state_size = sizeof(audio_state),
         .attrs = PF_ATTRS(PF_ATTR(audio_state, PF_ATTR_INT, max_outputs),
                           PF_ATTR(audio_state, PF_ATTR_FLOAT, sample_rate))),
  PF_CPU("AudioSummaryV2", NULL, .compute = audio_v2, .state_size = sizeof(audio_state),
         .attrs = PF_ATTRS(PF_ATTR(audio_state, PF_ATTR_INT, max_outputs))),
  NULL};
