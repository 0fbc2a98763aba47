/* tile_end.h - forgets the names of tile_begin.h. */
#undef TILE_F32
#undef TILE_F64
#undef T
#undef TILE
#undef TILE_NAME
#undef V
#undef VL
#undef V_LOAD
#undef V_STORE
#undef V_SET
#undef V_SUM
#undef V_LOAD_PART
#undef V_STORE_PART
#undef V_FMA
#undef TRANSPOSE_4X4
