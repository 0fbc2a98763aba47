/* apply_rules.h - one loop per optimiser, for the element type T; RULE(name) gives the function its
 * suffix.
 *
 * Included twice by training.c.  Every rule has the form
 *     void rule(T *const *s, const T *g, const double *h, int flag, int64_t n)
 * s: the variable and its slots, in input order; g: gradient; h: hyper-parameters in the order
 * written above the rule; flag: use_nesterov, update_slots or multiply_linear_by_lr.  The formulas
 * are those of the TF ops.
 */
#define RULE_ARGS T *const *s, const T *restrict g, const double *h, int flag, int64_t n
#define SLOT(name, i) T *restrict name = s[i]

/* alpha */
static void RULE(gradient_descent)(RULE_ARGS) {
  SLOT(var, 0);
  const T a = (T)h[0];
  (void)flag;
  for (int64_t i = 0; i < n; i++) var[i] -= a * g[i];
}

/* alpha, l1, l2: Duchi & Singer, forward-backward splitting */
static void RULE(proximal_gradient_descent)(RULE_ARGS) {
  SLOT(var, 0);
  const T a = (T)h[0], l1 = (T)h[1], l2 = (T)h[2], shrink = 1 + a * l2;
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T p = var[i] - a * g[i], q = FABS(p) - a * l1;
    if (l1 > 0) p = q > 0 ? (p < 0 ? -q : q) : (T)0;
    var[i] = p / shrink;
  }
}

/* lr, momentum */
static void RULE(momentum)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(acc, 1);
  const T lr = (T)h[0], m = (T)h[1];
  if (flag) {
    for (int64_t i = 0; i < n; i++) {
      T a = acc[i] * m + g[i];
      acc[i] = a;
      var[i] -= g[i] * lr + a * m * lr;
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      T a = acc[i] * m + g[i];
      acc[i] = a;
      var[i] -= a * lr;
    }
  }
}

/* lr, momentum: the accumulator holds steps, not gradients */
static void RULE(keras_momentum)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(acc, 1);
  const T lr = (T)h[0], m = (T)h[1];
  for (int64_t i = 0; i < n; i++) {
    T a = acc[i] * m - g[i] * lr;
    acc[i] = a;
    var[i] += flag ? a * m - g[i] * lr : a;
  }
}

/* beta1_power, beta2_power, lr, beta1, beta2, epsilon: Kingma & Ba, with epsilon outside the
 * correction */
static void RULE(adam)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(m, 1);
  SLOT(v, 2);
  const T alpha = (T)h[2] * SQRT(1 - (T)h[1]) / (1 - (T)h[0]);
  const T b1 = (T)h[3], c1 = 1 - b1, c2 = 1 - (T)h[4], eps = (T)h[5];
  if (flag) {
    for (int64_t i = 0; i < n; i++) {
      T a = m[i] + (g[i] - m[i]) * c1, b = v[i] + (g[i] * g[i] - v[i]) * c2;
      m[i] = a;
      v[i] = b;
      var[i] -= (g[i] * c1 + b1 * a) * alpha / (SQRT(b) + eps);
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      T a = m[i] + (g[i] - m[i]) * c1, b = v[i] + (g[i] * g[i] - v[i]) * c2;
      m[i] = a;
      v[i] = b;
      var[i] -= a * alpha / (SQRT(b) + eps);
    }
  }
}

/* beta1_power, lr, beta1, beta2, epsilon: Kingma & Ba, section 7.1 */
static void RULE(ada_max)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(m, 1);
  SLOT(v, 2);
  const T alpha = (T)h[1] / (1 - (T)h[0]), c1 = 1 - (T)h[2], b2 = (T)h[3], eps = (T)h[4];
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T a = m[i] + (g[i] - m[i]) * c1, b = b2 * v[i], c = FABS(g[i]);
    b = b > c ? b : c;
    m[i] = a;
    v[i] = b;
    var[i] -= alpha * (a / (b + eps));
  }
}

/* lr, rho, momentum, epsilon: Tieleman & Hinton */
static void RULE(rms_prop)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(ms, 1);
  SLOT(mom, 2);
  const T lr = (T)h[0], c = 1 - (T)h[1], m = (T)h[2], eps = (T)h[3];
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T a = ms[i] + (g[i] * g[i] - ms[i]) * c, b = mom[i] * m + g[i] * lr / SQRT(a + eps);
    ms[i] = a;
    mom[i] = b;
    var[i] -= b;
  }
}

/* lr, rho, momentum, epsilon: Graves, "Generating sequences", eq. 38-45 */
static void RULE(centered_rms_prop)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(mg, 1);
  SLOT(ms, 2);
  SLOT(mom, 3);
  const T lr = (T)h[0], c = 1 - (T)h[1], m = (T)h[2], eps = (T)h[3];
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T a = ms[i] + (g[i] * g[i] - ms[i]) * c, b = mg[i] + (g[i] - mg[i]) * c;
    T d = mom[i] * m + g[i] * lr / SQRT(a - b * b + eps);
    ms[i] = a;
    mg[i] = b;
    mom[i] = d;
    var[i] -= d;
  }
}

/* lr: Duchi, Hazan & Singer */
static void RULE(adagrad)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(acc, 1);
  const T lr = (T)h[0];
  for (int64_t i = 0; i < n; i++) {
    T a = flag ? acc[i] + g[i] * g[i] : acc[i];
    acc[i] = a;
    var[i] -= g[i] * lr / SQRT(a);
  }
}

/* lr, epsilon */
static void RULE(adagrad_v2)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(acc, 1);
  const T lr = (T)h[0], eps = (T)h[1];
  for (int64_t i = 0; i < n; i++) {
    T a = flag ? acc[i] + g[i] * g[i] : acc[i];
    acc[i] = a;
    var[i] -= g[i] * lr / (SQRT(a) + eps);
  }
}

/* lr, l1, l2 */
static void RULE(proximal_adagrad)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(acc, 1);
  const T lr = (T)h[0], l1 = (T)h[1], l2 = (T)h[2];
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T a = acc[i] + g[i] * g[i], rate = lr / SQRT(a), p = var[i] - g[i] * rate;
    T q = FABS(p) - rate * l1;
    if (l1 > 0) p = q > 0 ? (p < 0 ? -q : q) : (T)0;
    acc[i] = a;
    var[i] = p / (1 + rate * l2);
  }
}

/* lr, rho, epsilon: Zeiler */
static void RULE(adadelta)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(acc, 1);
  SLOT(upd, 2);
  const T lr = (T)h[0], rho = (T)h[1], eps = (T)h[2], c = 1 - rho;
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T a = acc[i] * rho + g[i] * g[i] * c, d = SQRT(upd[i] + eps) / SQRT(a + eps) * g[i];
    acc[i] = a;
    var[i] -= d * lr;
    upd[i] = upd[i] * rho + d * d * c;
  }
}

/* lr, l1, l2, lr_power, l2_shrinkage: McMahan et al., "Ad click prediction" */
static void RULE(ftrl)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(acc, 1);
  SLOT(lin, 2);
  const T lr = (T)h[0], l1 = (T)h[1], l2 = (T)h[2], p = -(T)h[3], shrink = (T)h[4];
  const int by_root = p == (T)0.5;
  /* multiply_linear_by_lr: the linear slot is kept times lr */
  const T scale = flag ? lr : (T)1;
  for (int64_t i = 0; i < n; i++) {
    T gs = g[i] + 2 * shrink * var[i], a = acc[i] + g[i] * g[i];
    T rn = by_root ? SQRT(a) : POW(a, p), ro = by_root ? SQRT(acc[i]) : POW(acc[i], p);
    T l = lin[i] + (flag ? gs * lr - (rn - ro) * var[i] : gs - (rn - ro) / lr * var[i]);
    T bound = l1 * scale, x = (l < -bound ? -bound : l > bound ? bound : l) - l;
    T y = (flag ? rn : rn / lr) + 2 * l2 * scale;
    lin[i] = l;
    acc[i] = a;
    var[i] = FABS(l) > bound ? x / y : (T)0;
  }
}

/* lr, alpha (or logbase), sign_decay, beta: Bello et al., "Neural optimizer search" */
static void RULE(add_sign)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(m, 1);
  const T lr = (T)h[0], alpha = (T)h[1], decay = (T)h[2], beta = (T)h[3];
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T a = m[i] * beta + g[i] * (1 - beta);
    T sg = (T)((g[i] > 0) - (g[i] < 0)) * (T)((a > 0) - (a < 0));
    m[i] = a;
    var[i] -= lr * (alpha + decay * sg) * g[i];
  }
}

static void RULE(power_sign)(RULE_ARGS) {
  SLOT(var, 0);
  SLOT(m, 1);
  const T lr = (T)h[0], base = (T)h[1], decay = (T)h[2], beta = (T)h[3];
  const T up = EXP(base * decay), down = EXP(-base * decay);
  (void)flag;
  for (int64_t i = 0; i < n; i++) {
    T a = m[i] * beta + g[i] * (1 - beta);
    T sg = (T)((g[i] > 0) - (g[i] < 0)) * (T)((a > 0) - (a < 0));
    m[i] = a;
    var[i] -= lr * (sg > 0 ? up : sg < 0 ? down : (T)1) * g[i];
  }
}
#undef SLOT
#undef RULE_ARGS
