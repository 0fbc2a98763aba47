/* pool_element.h - what pool_body.h asks of an element type: one of
 *
 *   ELEMENT_F32, ELEMENT_F64      as they are
 *   ELEMENT_HALF type             PF_FLOAT16 or PF_BFLOAT16, float in the buffer
 *   ELEMENT_ORDERED least         halves as integers in their order
 *
 * and what maxima, or (AVERAGE) averages, of all types have in common.
 */
#if defined(AVERAGE)
#define JOIN PLUS
#define QUICK PLUS
#define NOTE KEEP
#define UNSURE SURE
#define IDENTITY 0
#define REST E_PART
#define BEYOND(near, zeros) (zeros)
#undef AVERAGE
#else
#define END SAME
#define END_EACH SAME_EACH
#define REST OVERLAPPING
#define BEYOND(near, zeros) (near)
#endif
#if defined(ELEMENT_F32) || defined(ELEMENT_HALF)
#define B float
#define V pf_vf
#define VL PF_VF
#define ZERO pf_vf_set(0)
#define B_LOAD pf_vf_load
#define B_PART pf_vf_load_part
#define B_STORE pf_vf_store
#define B_STORE_PART pf_vf_store_part
#define B_PICK pick_f32
#endif
#if defined(ELEMENT_F32)
#define E float
#define E_LOAD pf_vf_load
#define E_PART pf_vf_load_part
#define E_STORE pf_vf_store
#define E_STORE_PART pf_vf_store_part
#define E_STREAM STREAM_32
#undef ELEMENT_F32
#elif defined(ELEMENT_F64)
#define E double
#define B double
#define V pf_vd
#define VL PF_VD
#define ZERO pf_vd_set(0)
#define B_LOAD pf_vd_load
#define B_PART pf_vd_load_part
#define B_STORE pf_vd_store
#define B_STORE_PART pf_vd_store_part
#define B_PICK pick_f64
#define E_LOAD pf_vd_load
#define E_PART pf_vd_load_part
#define E_STORE pf_vd_store
#define E_STORE_PART pf_vd_store_part
#define E_STREAM STREAM_64
#undef ELEMENT_F64
#elif defined(ELEMENT_HALF)
#define E uint16_t
#define E_LOAD(p) pf_vf_read(ELEMENT_HALF, p)
#define E_PART(p, n) pf_vf_read_part(ELEMENT_HALF, p, n)
#define E_STORE(p, v) pf_vf_write(ELEMENT_HALF, p, v, 0)
#define E_STORE_PART(p, v, n) pf_vf_write_part(ELEMENT_HALF, p, v, n)
#define E_STREAM(p, v) pf_vf_write(ELEMENT_HALF, p, v, STREAM_HALVES)
#else
#define E int16_t
#define B int16_t
#define V v16
#define VL V16
#define ZERO (v16){0}
#define B_LOAD load_16
#define B_PART part_16
#define B_STORE store_16
#define B_STORE_PART store_part_16
#define B_PICK pick_16
#define E_LOAD(p) turned_16(load_16(p))
#define E_PART(p, n) ordered(part_16(p, n), ELEMENT_ORDERED)
#define E_STORE store_ordered
#define E_STORE_PART(p, v, n) store_part_16(p, turned_16(v), n)
#define E_STREAM(p, v) STREAM_16(p, turned_16(v))
#endif
