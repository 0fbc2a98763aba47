/* image_boxes.c - DrawBoundingBoxes, DrawBoundingBoxesV2, SampleDistortedBoundingBox, V2.
 *
 * Boxes are [ymin, xmin, ymax, xmax] as fractions of the image.  Sampling draws Philox words in
 * TF's order, so equal seeds give TF's boxes.
 *
 * Invariants: coordinates are clipped as floating point numbers before they become integers.
 * Threads: one thread; drawing and sampling touch little memory.
 */
#include "base/common.h"

/* ---------------------------------------------------------------- drawing */
static const float colors[10][4] = {
  {1, 1, 0, 1},       {0, 0, 1, 1},    {1, 0, 0, 1},    {0, 1, 0, 1}, {0.5f, 0, 0.5f, 1},
  {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1}, {0, 1, 1, 1}, {1, 0, 1, 1}};

typedef struct {
  void *y;
  int32_t type;
  int64_t h, w, ch;
  const float *color;
  int grey;
} canvas;

static void paint(const canvas *v, int64_t b, int64_t y, int64_t x) {
  for (int64_t k = 0; k < v->ch; k++) {
    float value = v->grey ? 1 : v->color[k];
    int64_t at = ((b * v->h + y) * v->w + x) * v->ch + k;
    if (v->type == PF_FLOAT32) ((float *)v->y)[at] = value;
    else ((uint16_t *)v->y)[at] = pf_to_half(value);
  }
}
static int64_t edge(float fraction, int64_t size) { /* toward zero, as TF; NaN is far outside */
  float at = fraction * (float)(size - 1);
  const int64_t far = INT64_C(1) << 50;
  return at > -1e15f && at < 1e15f ? (int64_t)at : at >= 1e15f ? far : -far;
}
static void draw_box(const canvas *v, int64_t b, const float *box) {
  int64_t y0 = edge(box[0], v->h), x0 = edge(box[1], v->w);
  int64_t y1 = edge(box[2], v->h), x1 = edge(box[3], v->w);
  if (y0 > y1 || x0 > x1 || y0 >= v->h || y1 < 0 || x0 >= v->w || x1 < 0) return;
  int64_t left = PF_MAX(x0, 0), right = PF_MIN(x1, v->w - 1), top = PF_MAX(y0, 0);
  int64_t bottom = PF_MIN(y1, v->h - 1);
  for (int64_t x = left; x <= right; x++) {
    if (y0 >= 0) paint(v, b, y0, x);
    if (y1 < v->h) paint(v, b, y1, x);
  }
  for (int64_t y = top; y <= bottom; y++) {
    if (x0 >= 0) paint(v, b, y, x0);
    if (x1 < v->w) paint(v, b, y, x1);
  }
}

static pf_status draw(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *boxes = c->in[1], *own = c->n_in > 2 ? c->in[2] : NULL;
  if (x->ndim != 4)
    return PF_INVALID(c, "The rank of the images should be 4, got %s", PF_SHAPE(x).s);
  int64_t ch = x->shape[3];
  if (ch != 1 && ch != 3 && ch != 4)
    return PF_INVALID(
        c, "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), got %" PRId64, ch);
  if (boxes->ndim != 3 || boxes->shape[2] != 4 || boxes->shape[0] != x->shape[0])
    return PF_INVALID(c, "boxes must be [batch, boxes, 4], got shape %s beside images %s",
                      PF_SHAPE(boxes).s, PF_SHAPE(x).s);
  const float *table = &colors[0][0];
  int64_t n_colors = 10, step = 4;
  if (own && pf_numel(own) > 0) {
    if (own->ndim != 2 || own->shape[1] < ch)
      return PF_INVALID(c,
                        "colors must be a 2-d matrix of at least %" PRId64 " columns, got shape %s",
                        ch, PF_SHAPE(own).s);
    table = PF_DATA(const float, own), n_colors = own->shape[0], step = own->shape[1];
  }
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  canvas v = {PF_DATA(void, y),
              c->in_type[0],
              x->shape[1],
              x->shape[2],
              ch,
              table,
              ch == 1 && table == &colors[0][0]};
  if (v.y != PF_DATA(void, x))
    memcpy(v.y, PF_DATA(void, x), (size_t)(pf_numel(x) * pf_type_size(v.type)));
  if (pf_numel(x) == 0) return PF_OK;
  for (int64_t b = 0; b < x->shape[0]; b++)
    for (int64_t i = 0; i < boxes->shape[1]; i++) {
      v.color = table + i % n_colors * step;
      draw_box(&v, b, PF_DATA(const float, boxes) + (b * boxes->shape[1] + i) * 4);
    }
  return PF_OK;
}

/* ---------------------------------------------------------------- random words, one by one */
typedef struct {
  uint64_t key, lo, hi;
  uint32_t word[4];
  int at;
} drawer;
static uint32_t next(drawer *d) {
  if (d->at == 4) {
    uint32_t x0 = (uint32_t)d->lo, x1 = (uint32_t)(d->lo >> 32), x2 = (uint32_t)d->hi;
    uint32_t x3 = (uint32_t)(d->hi >> 32), k0 = (uint32_t)d->key, k1 = (uint32_t)(d->key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      uint64_t a = (uint64_t)x0 * 0xD2511F53u, b = (uint64_t)x2 * 0xCD9E8D57u;
      x0 = (uint32_t)(b >> 32) ^ x1 ^ k0, x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
      x1 = (uint32_t)b, x3 = (uint32_t)a;
    }
    d->word[0] = x0, d->word[1] = x1, d->word[2] = x2, d->word[3] = x3;
    d->lo++;
    d->hi += d->lo == 0;
    d->at = 0;
  }
  return d->word[d->at++];
}
static float unit(drawer *d) { return pf_bits_float((next(d) & 0x7fffffu) | 0x3f800000u) - 1.0f; }
/* uniform in [0, n), without skew: numbers below 2^32 mod n are drawn again */
static uint32_t below(drawer *d, uint32_t n) {
  if ((n & (n - 1)) == 0) return next(d) & (n - 1);
  uint32_t skew = UINT32_MAX % n + 1, x;
  do x = next(d);
  while (x < skew);
  return x % n;
}

/* ---------------------------------------------------------------- sampling */
enum { MOST_ATTEMPTS = 10000000 }; /* half a second */
typedef struct {
  pf_list aspects, areas;
  double covered;
  int64_t attempts;
  int32_t whole; /* use_image_if_no_bounding_boxes */
} sample_state;
typedef struct { int64_t x0, y0, x1, y1; } rect;

static pf_status range_of(pf_ctx *c, const pf_list *list, const char *name, double most, float *lo,
                          float *hi) {
  const double *v = list->items;
  if (list->n != 2) return PF_INVALID(c, "%s field must specify 2 dimensions", name);
  if (!(v[0] > 0 && v[1] > 0 && v[0] <= most && v[1] <= most))
    return PF_INVALID(c, "%s must be positive and at most %g: [%g, %g]", name, most, v[0], v[1]);
  *lo = (float)v[0], *hi = (float)v[1];
  return PF_OK;
}
static pf_status sample_init(pf_ctx *c, void *state) {
  const sample_state *s = state;
  float lo, hi;
  PF_TRY(range_of(c, &s->aspects, "aspect_ratio_range", 1e30, &lo, &hi));
  PF_TRY(range_of(c, &s->areas, "area_range", 1, &lo, &hi));
  if (s->attempts <= 0 || s->attempts > MOST_ATTEMPTS)
    return PF_INVALID(c, "Max attempts must be positive: %" PRId64 " (and at most %d)", s->attempts,
                      MOST_ATTEMPTS);
  return PF_OK;
}

static int64_t wide_as(int64_t height, float aspect) {
  return (int64_t)lrintf((float)height * aspect);
}
/* a crop of the aspect ratio whose area lies in [least, most] of the image; 0: none was found */
static int draw_crop(drawer *d, int64_t w, int64_t h, float least, float most, float aspect,
                     rect *out) {
  if (w <= 0 || h <= 0 || least > most) return 0;
  float min_area = least * (float)w * (float)h, max_area = most * (float)w * (float)h;
  int64_t height = lrintf(sqrtf(min_area / aspect)), tallest = lrintf(sqrtf(max_area / aspect));
  if (wide_as(tallest, aspect) > w) {
    tallest = (int64_t)(((double)w + 0.5 - 1e-7) / (double)aspect);
    if (wide_as(tallest, aspect) > w) tallest--;
  }
  tallest = PF_MIN(tallest, h);
  height = PF_MIN(height, tallest);
  if (height < tallest) height += below(d, (uint32_t)(tallest - height + 1));
  int64_t width = wide_as(height, aspect);
  if ((float)(width * height) < min_area) width = wide_as(++height, aspect);
  if ((float)(width * height) > max_area) width = wide_as(--height, aspect);
  float area = (float)(width * height);
  if (area < min_area || area > max_area || width > w || height > h || width <= 0 || height <= 0)
    return 0;
  int64_t y = height < h ? below(d, (uint32_t)(h - height)) : 0;
  int64_t x = width < w ? below(d, (uint32_t)(w - width)) : 0;
  *out = (rect){x, y, x + width, y + height};
  return 1;
}
/* the crop holds at least the fraction `covered` of some box */
static int covers(const rect *crop, const rect *boxes, int64_t n, float covered) {
  for (int64_t i = 0; i < n; i++) {
    const rect *b = boxes + i;
    int64_t w = PF_MIN(crop->x1, b->x1) - PF_MAX(crop->x0, b->x0);
    int64_t h = PF_MIN(crop->y1, b->y1) - PF_MAX(crop->y0, b->y0);
    float area = (float)((b->x1 - b->x0) * (b->y1 - b->y0));
    float both = w > 0 && h > 0 ? (float)(w * h) : 0;
    if (area <= 0 ? 0 : both >= covered * area) return 1;
  }
  return 0;
}

static pf_status boxes_of(pf_ctx *c, const sample_state *s, int64_t w, int64_t h, rect **out,
                          int64_t *n) {
  const DLTensor *t = c->in[1];
  if (t->ndim != 3 || t->shape[2] != 4)
    return PF_INVALID(c, "bounding_boxes must have shape [batch, N, 4], got %s", PF_SHAPE(t).s);
  *n = pf_numel(t) / 4;
  *out = c->host->scratch(c, (uint64_t)(*n + 1) * sizeof(rect), 64);
  if (!*out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the boxes");
  for (int64_t i = 0; i < *n; i++) {
    const float *b = PF_DATA(const float, t) + 4 * i;
    for (int k = 0; k < 4; k++)
      if (!(b[k] >= 0 && b[k] <= 1))
        return PF_INVALID(
            c, "All bounding box coordinates must be in [0.0, 1.0]: box %" PRId64 " has %g", i,
            (double)b[k]);
    if (b[0] >= b[2] || b[1] >= b[3])
      return PF_INVALID(c, "box %" PRId64 " [%g, %g, %g, %g] must have ymin < ymax and xmin < xmax",
                        i, (double)b[0], (double)b[1], (double)b[2], (double)b[3]);
    (*out)[i] = (rect){(int64_t)(b[1] * (float)w), (int64_t)(b[0] * (float)h),
                       (int64_t)(b[3] * (float)w), (int64_t)(b[2] * (float)h)};
  }
  if (*n) return PF_OK;
  if (!s->whole)
    return PF_INVALID(c, "No bounding boxes provided as input. One must enable "
                         "use_image_if_no_bounding_boxes if you wish to not provide any.");
  (*out)[(*n)++] = (rect){0, 0, w, h};
  return PF_OK;
}

static pf_status give(pf_ctx *c, const rect *crop, int64_t w, int64_t h) {
  int32_t type = c->in_type[0];
  int64_t three = 3, one_box[3] = {1, 1, 4};
  DLTensor *begin = c->host->output(c, 0, &three, 1);
  DLTensor *size = begin ? c->host->output(c, 1, &three, 1) : NULL;
  DLTensor *box = size ? c->host->output(c, 2, one_box, 3) : NULL;
  PF_EXHAUSTED(box);
  int64_t first[3] = {crop->y0, crop->x0, 0};
  int64_t extent[3] = {crop->y1 - crop->y0, crop->x1 - crop->x0, -1};
  for (int i = 0; i < 3; i++) {
    pf_put_index(begin, type, i, first[i]);
    pf_put_index(size, type, i, extent[i]);
  }
  float *b = PF_DATA(float, box);
  b[0] = (float)crop->y0 / (float)h, b[1] = (float)crop->x0 / (float)w;
  b[2] = (float)crop->y1 / (float)h, b[3] = (float)crop->x1 / (float)w;
  return PF_OK;
}

static pf_status sample(pf_ctx *c, const sample_state *s, float covered) {
  const DLTensor *image = c->in[0];
  const double *aspects = s->aspects.items, *areas = s->areas.items;
  uint64_t key[2], counter[2];
  int64_t n;
  rect *boxes;
  if (image->ndim != 1 || image->shape[0] != 3)
    return PF_INVALID(c, "image_size must contain 3 elements, got shape %s", PF_SHAPE(image).s);
  int64_t h = pf_in_index(c, 0, 0), w = pf_in_index(c, 0, 1);
  if (h <= 0 || w <= 0 || h > 1 << 24 || w > 1 << 24)
    return PF_INVALID(c, "image height and width must be in [1, 2^24], got %" PRId64 " x %" PRId64,
                      h, w);
  if (!(covered >= 0))
    return PF_INVALID(c, "Min object covered must be non-negative: %g", (double)covered);
  PF_TRY(boxes_of(c, s, w, h, &boxes, &n));
  PF_TRY(c->host->rng(c, (uint64_t)s->attempts, key, counter));
  drawer d = {key[0], counter[0], counter[1], {0}, 4};
  float narrow = (float)aspects[0], wide = (float)aspects[1];
  rect crop = {0, 0, w, h};
  for (int64_t i = 0; i < s->attempts; i++) {
    rect tried;
    float aspect = unit(&d) * (wide - narrow) + narrow;
    if (draw_crop(&d, w, h, (float)areas[0], (float)areas[1], aspect, &tried) &&
        covers(&tried, boxes, n, covered)) {
      crop = tried;
      break;
    }
  }
  return give(c, &crop, w, h);
}
static pf_status sample_v1(pf_ctx *c, const void *s) {
  return sample(c, s, (float)((const sample_state *)s)->covered);
}
static pf_status sample_v2(pf_ctx *c, const void *s) {
  if (c->in[2]->ndim != 0)
    return PF_INVALID(c, "min_object_covered must be 0-D, got shape %s", PF_SHAPE(c->in[2]).s);
  return sample(c, s, PF_DATA(const float, c->in[2])[0]);
}

#define FIELD(name_, kind, field) PF_REF(pf_attr, name_, kind, offsetof(sample_state, field))
#define FLOATS (PF_ATTR_FLOAT | PF_ATTR_LIST)
#define SAMPLE(op, fn, ...) \
  PF_CPU_FLAGS(op, "T=uint8|int8|int16|int32|int64", 0, .init = sample_init, .compute = fn, \
               .state_size = sizeof(sample_state), \
               .attrs = PF_ATTRS(FIELD("aspect_ratio_range", FLOATS, aspects), \
                                 FIELD("area_range", FLOATS, areas), \
                                 FIELD("max_attempts", PF_ATTR_INT, attempts), __VA_ARGS__ \
                                 FIELD("use_image_if_no_bounding_boxes", PF_ATTR_BOOL, whole)))
const pf_kernel *const image_boxes_kernels[] = {
  PF_CPU("DrawBoundingBoxes", "T=half|float", .compute = draw),
  PF_CPU("DrawBoundingBoxesV2", "T=half|float", .compute = draw),
  SAMPLE("SampleDistortedBoundingBox", sample_v1,
         FIELD("min_object_covered", PF_ATTR_FLOAT, covered), ),
  SAMPLE("SampleDistortedBoundingBoxV2", sample_v2), NULL};
